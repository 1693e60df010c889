CREATE TABLE `dbq_task_logs` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`task_id` integer NOT NULL,
	`generation_id` integer NOT NULL,
	`at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`message` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `dbq_task_logs_task` ON `dbq_task_logs` (`task_id`,`id`);--> statement-breakpoint
ALTER TABLE `dbq_attempts` ADD `error_cause` text;