CREATE TABLE `dbq_agents` (
	`name` text PRIMARY KEY NOT NULL,
	`token_hash` text NOT NULL,
	`funcs` text NOT NULL,
	`queues` text NOT NULL,
	`created_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`last_seen_at` integer,
	`expires_at` integer,
	`revoked_at` integer
);
--> statement-breakpoint
CREATE TABLE `dbq_drains` (
	`queue_name` text PRIMARY KEY NOT NULL,
	`worker_id` text,
	`generation_id` integer DEFAULT 1 NOT NULL,
	`target` text,
	`updated_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL
);
--> statement-breakpoint
CREATE TABLE `dbq_settings` (
	`name` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
);
--> statement-breakpoint
DROP INDEX `dbq_tasks_unique`;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `group_key` text;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `uses` text;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `unique_until` integer;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `schedule_name` text;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `slot` integer;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `parent_id` integer;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `root_id` integer;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `manual_retries` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX `dbq_tasks_unique` ON `dbq_tasks` (`unique_key`) WHERE unique_key is not null and (status in ('pending', 'scheduled', 'running') or status = 'waiting' or unique_until is not null);