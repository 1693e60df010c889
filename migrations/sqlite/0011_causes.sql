CREATE TABLE `dbq_causes` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`name` text NOT NULL,
	`key` text DEFAULT '' NOT NULL,
	`cause` text,
	`began_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`ended_at` integer,
	`seen_at` integer DEFAULT (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) NOT NULL,
	`reporter` text,
	`reported` text
);
--> statement-breakpoint
CREATE UNIQUE INDEX `dbq_causes_name` ON `dbq_causes` (`name`,`key`);