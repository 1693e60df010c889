CREATE TABLE `dbq_causes` (
	`id` bigint AUTO_INCREMENT NOT NULL,
	`name` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL,
	`key` varchar(255) character set utf8mb4 collate utf8mb4_bin NOT NULL DEFAULT '',
	`cause` longtext character set utf8mb4 collate utf8mb4_bin,
	`began_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`ended_at` datetime(3),
	`seen_at` datetime(3) NOT NULL DEFAULT (utc_timestamp(3)),
	`reporter` varchar(255) character set utf8mb4 collate utf8mb4_bin,
	`reported` varchar(16) character set utf8mb4 collate utf8mb4_bin,
	CONSTRAINT `dbq_causes_id` PRIMARY KEY(`id`),
	CONSTRAINT `dbq_causes_name` UNIQUE(`name`,`key`)
);
