CREATE TABLE `dbq_events` (
	`id` bigint AUTO_INCREMENT NOT NULL,
	`name` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`payload` longtext character set utf8mb4 collate utf8mb4_bin,
	`emitted_at` datetime(3),
	CONSTRAINT `dbq_events_id` PRIMARY KEY(`id`),
	CONSTRAINT `dbq_events_name` UNIQUE(`name`)
);
--> statement-breakpoint
CREATE TABLE `dbq_steps` (
	`id` bigint AUTO_INCREMENT NOT NULL,
	`task_id` bigint NOT NULL,
	`name` varchar(300) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`seq` int NOT NULL,
	`value` longtext character set utf8mb4 collate utf8mb4_bin,
	`error` longtext character set utf8mb4 collate utf8mb4_bin,
	`generation_id` bigint NOT NULL,
	`started_at` datetime(3),
	`ended_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`undo_state` varchar(16) character set utf8mb4 collate utf8mb4_bin,
	`undo_error` longtext character set utf8mb4 collate utf8mb4_bin,
	`child_id` bigint,
	CONSTRAINT `dbq_steps_id` PRIMARY KEY(`id`),
	CONSTRAINT `dbq_steps_task` UNIQUE(`task_id`,`name`)
);
--> statement-breakpoint
CREATE TABLE `dbq_waits` (
	`id` bigint AUTO_INCREMENT NOT NULL,
	`task_id` bigint NOT NULL,
	`name` varchar(300) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`kind` varchar(16) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`target` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	`deadline` datetime(3),
	`mode` varchar(64) character set utf8mb4 collate utf8mb4_bin,
	CONSTRAINT `dbq_waits_id` PRIMARY KEY(`id`),
	CONSTRAINT `dbq_waits_task` UNIQUE(`task_id`,`name`)
);
--> statement-breakpoint
CREATE INDEX `dbq_events_emitted` ON `dbq_events` (`emitted_at`);--> statement-breakpoint
CREATE INDEX `dbq_waits_target` ON `dbq_waits` (`target`);--> statement-breakpoint
CREATE INDEX `dbq_waits_deadline` ON `dbq_waits` (`deadline`);--> statement-breakpoint
CREATE INDEX `dbq_tasks_parent` ON `dbq_tasks` (`parent_id`);