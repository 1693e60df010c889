CREATE TABLE `dbq_owed_hooks` (
	`id` bigint AUTO_INCREMENT NOT NULL,
	`task_id` bigint NOT NULL,
	`generation_id` bigint NOT NULL,
	`queue_name` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`func` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`status` varchar(16) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`retry_count` int NOT NULL,
	`worker_id` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	`tries` int NOT NULL DEFAULT 0,
	`created_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	CONSTRAINT `dbq_owed_hooks_id` PRIMARY KEY(`id`)
);
--> statement-breakpoint
CREATE INDEX `dbq_owed_hooks_func` ON `dbq_owed_hooks` (`queue_name`,`func`,`id`);