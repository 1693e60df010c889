CREATE TABLE `dbq_events` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`name` text NOT NULL,
	`payload` text,
	`emitted_at` integer
);
--> statement-breakpoint
CREATE UNIQUE INDEX `dbq_events_name` ON `dbq_events` (`name`);--> statement-breakpoint
CREATE INDEX `dbq_events_emitted` ON `dbq_events` (`emitted_at`);--> statement-breakpoint
CREATE TABLE `dbq_steps` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`task_id` integer NOT NULL,
	`name` text NOT NULL,
	`seq` integer NOT NULL,
	`value` text,
	`error` text,
	`generation_id` integer NOT NULL,
	`started_at` integer,
	`ended_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`undo_state` text,
	`undo_error` text,
	`child_id` integer
);
--> statement-breakpoint
CREATE UNIQUE INDEX `dbq_steps_task` ON `dbq_steps` (`task_id`,`name`);--> statement-breakpoint
CREATE TABLE `dbq_waits` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`task_id` integer NOT NULL,
	`name` text NOT NULL,
	`kind` text NOT NULL,
	`target` text,
	`deadline` integer,
	`mode` text
);
--> statement-breakpoint
CREATE UNIQUE INDEX `dbq_waits_task` ON `dbq_waits` (`task_id`,`name`);--> statement-breakpoint
CREATE INDEX `dbq_waits_target` ON `dbq_waits` (`target`);--> statement-breakpoint
CREATE INDEX `dbq_waits_deadline` ON `dbq_waits` (`deadline`) WHERE deadline is not null;--> statement-breakpoint
CREATE INDEX `dbq_tasks_parent` ON `dbq_tasks` (`parent_id`) WHERE parent_id is not null;