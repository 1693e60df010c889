CREATE TABLE `dbq_agents` (
	`name` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`token_hash` varchar(64) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`funcs` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`queues` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`created_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`last_seen_at` datetime(3),
	`expires_at` datetime(3),
	`revoked_at` datetime(3),
	CONSTRAINT `dbq_agents_name` PRIMARY KEY(`name`)
);
--> statement-breakpoint
CREATE TABLE `dbq_drains` (
	`queue_name` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`worker_id` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	`generation_id` bigint NOT NULL DEFAULT 1,
	`target` longtext character set utf8mb4 collate utf8mb4_bin,
	`updated_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	CONSTRAINT `dbq_drains_queue_name` PRIMARY KEY(`queue_name`)
);
--> statement-breakpoint
CREATE TABLE `dbq_settings` (
	`name` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`value` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL,
	CONSTRAINT `dbq_settings_name` PRIMARY KEY(`name`)
);
--> statement-breakpoint
-- One statement for all columns: MariaDB rebuilds the table for each statement.
ALTER TABLE `dbq_tasks`
	ADD `group_key` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	ADD `uses` longtext character set utf8mb4 collate utf8mb4_bin,
	ADD `unique_until` datetime(3),
	ADD `schedule_name` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	ADD `slot` datetime(3),
	ADD `parent_id` bigint,
	ADD `root_id` bigint,
	ADD `manual_retries` int DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `taken_key` varbinary(1020) GENERATED ALWAYS AS ((case when `status` in ('pending', 'scheduled', 'running') or `status` = 'waiting' or `unique_until` is not null then cast(`unique_key` as binary) end)) VIRTUAL;--> statement-breakpoint
-- Before the old index is dropped, so that a key is unique at every moment.
ALTER TABLE `dbq_tasks` ADD CONSTRAINT `dbq_tasks_unique_key` UNIQUE(`taken_key`);--> statement-breakpoint
ALTER TABLE `dbq_tasks` DROP INDEX `dbq_tasks_unique`;--> statement-breakpoint
ALTER TABLE `dbq_tasks` DROP COLUMN `held_key`;