CREATE TABLE `dbq_failures` (
	`id` varchar(16) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`func` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`error_name` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`message` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`minute` datetime(3) NOT NULL,
	`span` int NOT NULL DEFAULT 1,
	`count` bigint NOT NULL DEFAULT 0,
	`first_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`last_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`sample` bigint,
	CONSTRAINT `dbq_failures_id_minute_span_pk` PRIMARY KEY(`id`,`minute`,`span`)
);
--> statement-breakpoint
ALTER TABLE `dbq_attempts` ADD `failure` varchar(16) character set utf8mb4 collate utf8mb4_bin;--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `failure` varchar(16) character set utf8mb4 collate utf8mb4_bin;--> statement-breakpoint
CREATE INDEX `dbq_failures_minute` ON `dbq_failures` (`span`,`minute`);--> statement-breakpoint
CREATE INDEX `dbq_tasks_failure` ON `dbq_tasks` (`failure`);