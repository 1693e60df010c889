CREATE TABLE `dbq_audit` (
	`id` bigint AUTO_INCREMENT NOT NULL,
	`at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`actor` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	`action` varchar(64) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`target` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`count` bigint NOT NULL DEFAULT 1,
	CONSTRAINT `dbq_audit_id` PRIMARY KEY(`id`)
);
--> statement-breakpoint
CREATE TABLE `dbq_limits` (
	`scope` varchar(16) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`name` varbinary(1020) NOT NULL,
	`group_key` varbinary(1020) NOT NULL DEFAULT '',
	`concurrency` int,
	`rate_limit` int,
	`rate_per` bigint,
	`rate_burst` int,
	`tat` bigint,
	`throttled_until` datetime(3),
	`paused_at` datetime(3),
	`claims` bigint NOT NULL DEFAULT 0,
	CONSTRAINT `dbq_limits_scope_name_group_key_pk` PRIMARY KEY(`scope`,`name`,`group_key`)
);
--> statement-breakpoint
CREATE TABLE `dbq_schedules` (
	`name` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`func` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`args` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT ('[]'),
	`kwargs` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT ('{}'),
	`options` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT ('{}'),
	`cron` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	`every_ms` bigint,
	`time_zone` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT 'UTC',
	`missed` varchar(32) character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT 'one',
	`overlap` varchar(16) character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT 'skip',
	`jitter_ms` bigint NOT NULL DEFAULT 0,
	`start_at` datetime(3),
	`end_at` datetime(3),
	`anchor_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`next_at` datetime(3),
	`last_slot` datetime(3),
	`last_task_id` bigint,
	`skipped` bigint NOT NULL DEFAULT 0,
	`paused_at` datetime(3),
	`generation_id` bigint NOT NULL DEFAULT 1,
	`created_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`updated_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	CONSTRAINT `dbq_schedules_name` PRIMARY KEY(`name`)
);
--> statement-breakpoint
CREATE TABLE `dbq_stats` (
	`id` bigint AUTO_INCREMENT NOT NULL,
	`minute` datetime(3) NOT NULL,
	`span` int NOT NULL DEFAULT 1,
	`worker_id` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT '',
	`queue_name` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`func` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`outcome` varchar(16) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`count` bigint NOT NULL,
	`wait_buckets` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT ('[]'),
	`run_buckets` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT ('[]'),
	CONSTRAINT `dbq_stats_id` PRIMARY KEY(`id`)
);
--> statement-breakpoint
-- One statement for all columns: MariaDB rebuilds the table for each statement.
ALTER TABLE `dbq_tasks`
	ADD `start_key` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	ADD `put_off_by` longtext character set utf8mb4 collate utf8mb4_bin,
	ADD `steered_place` varchar(40) GENERATED ALWAYS AS ((case when `status` = 'pending' and `group_key` is not null then concat('p', md5(`queue_name`)) when `status` = 'running' and (`group_key` is not null or `uses` is not null) then 'r' when `status` = 'scheduled' and `put_off_by` is not null then concat('s', md5(`put_off_by`)) end)) VIRTUAL,
	ADD `group_bytes` varbinary(1020) GENERATED ALWAYS AS ((cast(`group_key` as binary))) VIRTUAL,
	ADD `unfinished_of` varchar(255) character set utf8mb4 collate utf8mb4_bin GENERATED ALWAYS AS ((case when `status` in ('pending', 'scheduled', 'running', 'waiting') then `schedule_name` end)) VIRTUAL;--> statement-breakpoint
ALTER TABLE `dbq_workers` ADD `limits_version` bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD CONSTRAINT `dbq_tasks_slot` UNIQUE(`schedule_name`,`slot`);--> statement-breakpoint
CREATE INDEX `dbq_audit_target` ON `dbq_audit` (`target`,`id`);--> statement-breakpoint
CREATE INDEX `dbq_schedules_next` ON `dbq_schedules` (`paused_at`,`next_at`);--> statement-breakpoint
CREATE INDEX `dbq_stats_minute` ON `dbq_stats` (`span`,`worker_id`,`minute`);--> statement-breakpoint
CREATE INDEX `dbq_tasks_steered` ON `dbq_tasks` (`steered_place`,`func`,`group_bytes`,`claim_rank`,`id`);--> statement-breakpoint
CREATE INDEX `dbq_tasks_of_schedule` ON `dbq_tasks` (`unfinished_of`);