ALTER TABLE `dbq_workers` ADD `request_id` text;--> statement-breakpoint
ALTER TABLE `dbq_workers` ADD `requested_at` integer;