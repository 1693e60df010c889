CREATE TABLE `dbq_owed_hooks` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`task_id` integer NOT NULL,
	`generation_id` integer NOT NULL,
	`queue_name` text NOT NULL,
	`func` text NOT NULL,
	`status` text NOT NULL,
	`retry_count` integer NOT NULL,
	`worker_id` text,
	`tries` integer DEFAULT 0 NOT NULL,
	`created_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL
);
--> statement-breakpoint
CREATE INDEX `dbq_owed_hooks_func` ON `dbq_owed_hooks` (`queue_name`,`func`,`id`);