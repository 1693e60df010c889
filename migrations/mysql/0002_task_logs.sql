CREATE TABLE `dbq_task_logs` (
	`id` bigint AUTO_INCREMENT NOT NULL,
	`task_id` bigint NOT NULL,
	`generation_id` bigint NOT NULL,
	`at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`message` longtext character set utf8mb4 collate utf8mb4_bin NOT NULL,
	CONSTRAINT `dbq_task_logs_id` PRIMARY KEY(`id`)
);
--> statement-breakpoint
ALTER TABLE `dbq_attempts` ADD `error_cause` longtext character set utf8mb4 collate utf8mb4_bin;--> statement-breakpoint
CREATE INDEX `dbq_task_logs_task` ON `dbq_task_logs` (`task_id`,`id`);