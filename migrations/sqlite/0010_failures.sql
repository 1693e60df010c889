CREATE TABLE `dbq_failures` (
	`id` text NOT NULL,
	`func` text NOT NULL,
	`error_name` text NOT NULL,
	`message` text NOT NULL,
	`minute` integer NOT NULL,
	`span` integer DEFAULT 1 NOT NULL,
	`count` integer DEFAULT 0 NOT NULL,
	`first_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`last_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`sample` integer,
	PRIMARY KEY(`id`, `minute`, `span`)
);
--> statement-breakpoint
CREATE INDEX `dbq_failures_minute` ON `dbq_failures` (`span`,`minute`);--> statement-breakpoint
ALTER TABLE `dbq_attempts` ADD `failure` text;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `failure` text;--> statement-breakpoint
CREATE INDEX `dbq_tasks_failure` ON `dbq_tasks` (`failure`) WHERE failure is not null;