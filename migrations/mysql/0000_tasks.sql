CREATE TABLE `dbq_attempts` (
	`id` bigint AUTO_INCREMENT NOT NULL,
	`task_id` bigint NOT NULL,
	`generation_id` bigint NOT NULL,
	`worker_id` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	`started_at` datetime(3),
	`ended_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`outcome` varchar(16) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`error_name` longtext character set utf8mb4 collate utf8mb4_bin,
	`error_message` longtext character set utf8mb4 collate utf8mb4_bin,
	`error_stack` longtext character set utf8mb4 collate utf8mb4_bin,
	CONSTRAINT `dbq_attempts_id` PRIMARY KEY(`id`)
);
--> statement-breakpoint
CREATE TABLE `dbq_tasks` (
	`id` bigint AUTO_INCREMENT NOT NULL,
	`func` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`args` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT ('[]'),
	`kwargs` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT ('{}'),
	`result` longtext character set utf8mb4 collate utf8mb4_bin,
	`error` longtext character set utf8mb4 collate utf8mb4_bin,
	`status` varchar(16) character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT 'pending',
	`generation_id` bigint NOT NULL DEFAULT 1,
	`created_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`updated_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`priority` int NOT NULL DEFAULT 5,
	`queue_name` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT 'default',
	`retry_count` int NOT NULL DEFAULT 0,
	`max_retries` int NOT NULL DEFAULT 3,
	`wait_until` datetime(3),
	`worker_id` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	`started_at` datetime(3),
	`finished_at` datetime(3),
	`request_id` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	`unique_key` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	`meta` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT ('{}'),
	`timeout` bigint,
	`progress` double,
	`progress_note` longtext character set utf8mb4 collate utf8mb4_bin,
	`claim_rank` bigint GENERATED ALWAYS AS ((-`priority`)) VIRTUAL,
	`held_key` varbinary(1020) GENERATED ALWAYS AS ((case when `status` in ('pending', 'scheduled', 'running') then cast(`unique_key` as binary) end)) VIRTUAL,
	CONSTRAINT `dbq_tasks_id` PRIMARY KEY(`id`),
	CONSTRAINT `dbq_tasks_unique` UNIQUE(`held_key`)
);
--> statement-breakpoint
CREATE TABLE `dbq_workers` (
	`id` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`queue_names` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`concurrency` int NOT NULL,
	`lease` bigint NOT NULL,
	`host` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`boot_id` varchar(64) character set utf8mb4 collate utf8mb4_bin,
	`pid_namespace` varchar(64) character set utf8mb4 collate utf8mb4_bin,
	`pid` bigint NOT NULL,
	`process_start` varchar(64) character set utf8mb4 collate utf8mb4_bin,
	`started_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`heartbeat_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`beat` bigint NOT NULL DEFAULT 1,
	`session` varchar(64) character set utf8mb4 collate utf8mb4_bin,
	CONSTRAINT `dbq_workers_id` PRIMARY KEY(`id`)
);
--> statement-breakpoint
CREATE INDEX `dbq_attempts_task` ON `dbq_attempts` (`task_id`);--> statement-breakpoint
CREATE INDEX `dbq_tasks_claim` ON `dbq_tasks` (`status`,`queue_name`,`func`,`claim_rank`,`id`);--> statement-breakpoint
CREATE INDEX `dbq_tasks_due` ON `dbq_tasks` (`status`,`wait_until`);--> statement-breakpoint
CREATE INDEX `dbq_tasks_running` ON `dbq_tasks` (`status`,`worker_id`);--> statement-breakpoint
CREATE INDEX `dbq_tasks_finished` ON `dbq_tasks` (`status`,`finished_at`);--> statement-breakpoint
CREATE INDEX `dbq_tasks_request` ON `dbq_tasks` (`request_id`);