CREATE TABLE `dbq_audit` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`actor` text,
	`action` text NOT NULL,
	`target` text NOT NULL,
	`count` integer DEFAULT 1 NOT NULL
);
--> statement-breakpoint
CREATE INDEX `dbq_audit_target` ON `dbq_audit` (`target`,`id`);--> statement-breakpoint
CREATE TABLE `dbq_limits` (
	`scope` text NOT NULL,
	`name` text NOT NULL,
	`group_key` text DEFAULT '' NOT NULL,
	`concurrency` integer,
	`rate_limit` integer,
	`rate_per` integer,
	`rate_burst` integer,
	`tat` integer,
	`throttled_until` integer,
	`paused_at` integer,
	`claims` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`scope`, `name`, `group_key`)
);
--> statement-breakpoint
CREATE TABLE `dbq_schedules` (
	`name` text PRIMARY KEY NOT NULL,
	`func` text NOT NULL,
	`args` text DEFAULT '[]' NOT NULL,
	`kwargs` text DEFAULT '{}' NOT NULL,
	`options` text DEFAULT '{}' NOT NULL,
	`cron` text,
	`every_ms` integer,
	`time_zone` text DEFAULT 'UTC' NOT NULL,
	`missed` text DEFAULT 'one' NOT NULL,
	`overlap` text DEFAULT 'skip' NOT NULL,
	`jitter_ms` integer DEFAULT 0 NOT NULL,
	`start_at` integer,
	`end_at` integer,
	`anchor_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`next_at` integer,
	`last_slot` integer,
	`last_task_id` integer,
	`skipped` integer DEFAULT 0 NOT NULL,
	`paused_at` integer,
	`generation_id` integer DEFAULT 1 NOT NULL,
	`created_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`updated_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL
);
--> statement-breakpoint
CREATE INDEX `dbq_schedules_next` ON `dbq_schedules` (`next_at`) WHERE paused_at is null and next_at is not null;--> statement-breakpoint
CREATE TABLE `dbq_stats` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`minute` integer NOT NULL,
	`span` integer DEFAULT 1 NOT NULL,
	`worker_id` text DEFAULT '' NOT NULL,
	`queue_name` text NOT NULL,
	`func` text NOT NULL,
	`outcome` text NOT NULL,
	`count` integer NOT NULL,
	`wait_buckets` text DEFAULT '[]' NOT NULL,
	`run_buckets` text DEFAULT '[]' NOT NULL
);
--> statement-breakpoint
CREATE INDEX `dbq_stats_minute` ON `dbq_stats` (`span`,`worker_id`,`minute`);--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `start_key` text;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `put_off_by` text;--> statement-breakpoint
CREATE INDEX `dbq_tasks_group` ON `dbq_tasks` (`queue_name`,`func`,`group_key`,priority desc,`id`) WHERE status = 'pending' and group_key is not null;--> statement-breakpoint
CREATE INDEX `dbq_tasks_in_use` ON `dbq_tasks` (`func`,`group_key`,`queue_name`,`uses`) WHERE status = 'running' and (uses is not null or group_key is not null);--> statement-breakpoint
CREATE INDEX `dbq_tasks_put_off` ON `dbq_tasks` (`put_off_by`,`wait_until`) WHERE status = 'scheduled' and put_off_by is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `dbq_tasks_slot` ON `dbq_tasks` (`schedule_name`,`slot`) WHERE schedule_name is not null;--> statement-breakpoint
CREATE INDEX `dbq_tasks_of_schedule` ON `dbq_tasks` (`schedule_name`) WHERE schedule_name is not null and status in ('pending', 'scheduled', 'running', 'waiting');--> statement-breakpoint
ALTER TABLE `dbq_workers` ADD `limits_version` integer DEFAULT 0 NOT NULL;