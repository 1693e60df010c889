CREATE TABLE `dbq_attempts` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`task_id` integer NOT NULL,
	`generation_id` integer NOT NULL,
	`worker_id` text,
	`started_at` integer,
	`ended_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`outcome` text NOT NULL,
	`error_name` text,
	`error_message` text,
	`error_stack` text
);
--> statement-breakpoint
CREATE INDEX `dbq_attempts_task` ON `dbq_attempts` (`task_id`);--> statement-breakpoint
CREATE TABLE `dbq_tasks` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`func` text NOT NULL,
	`args` text DEFAULT '[]' NOT NULL,
	`kwargs` text DEFAULT '{}' NOT NULL,
	`result` text,
	`error` text,
	`status` text DEFAULT 'pending' NOT NULL,
	`generation_id` integer DEFAULT 1 NOT NULL,
	`created_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`updated_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`priority` integer DEFAULT 5 NOT NULL,
	`queue_name` text DEFAULT 'default' NOT NULL,
	`retry_count` integer DEFAULT 0 NOT NULL,
	`max_retries` integer DEFAULT 3 NOT NULL,
	`wait_until` integer,
	`worker_id` text,
	`started_at` integer,
	`finished_at` integer,
	`request_id` text,
	`unique_key` text,
	`meta` text DEFAULT '{}' NOT NULL,
	`timeout` integer,
	`progress` real,
	`progress_note` text
);
--> statement-breakpoint
CREATE INDEX `dbq_tasks_claim` ON `dbq_tasks` (`queue_name`,`func`,priority desc,`id`,`wait_until`) WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX `dbq_tasks_due` ON `dbq_tasks` (`wait_until`) WHERE status = 'scheduled';--> statement-breakpoint
CREATE INDEX `dbq_tasks_running` ON `dbq_tasks` (`worker_id`) WHERE status = 'running';--> statement-breakpoint
CREATE INDEX `dbq_tasks_finished` ON `dbq_tasks` (`status`,`finished_at`) WHERE finished_at is not null;--> statement-breakpoint
CREATE INDEX `dbq_tasks_request` ON `dbq_tasks` (`request_id`) WHERE request_id is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `dbq_tasks_unique` ON `dbq_tasks` (`unique_key`) WHERE unique_key is not null and status in ('pending', 'scheduled', 'running');--> statement-breakpoint
CREATE TABLE `dbq_workers` (
	`id` text PRIMARY KEY NOT NULL,
	`queue_names` text NOT NULL,
	`concurrency` integer NOT NULL,
	`lease` integer NOT NULL,
	`host` text NOT NULL,
	`boot_id` text,
	`pid_namespace` text,
	`pid` integer NOT NULL,
	`process_start` text,
	`started_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`heartbeat_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`beat` integer DEFAULT 1 NOT NULL
);
