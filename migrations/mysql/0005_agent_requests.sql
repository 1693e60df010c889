ALTER TABLE `dbq_workers` ADD `request_id` varchar(255) character set utf8mb4 collate utf8mb4_bin;--> statement-breakpoint
ALTER TABLE `dbq_workers` ADD `requested_at` datetime(3);