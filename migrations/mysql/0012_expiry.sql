ALTER TABLE `dbq_tasks` ADD `expires_at` datetime(3);--> statement-breakpoint
ALTER TABLE `dbq_tasks` ADD `expiry_at` datetime(3) GENERATED ALWAYS AS ((case when `started_at` is null then `expires_at` end)) VIRTUAL;--> statement-breakpoint
CREATE INDEX `dbq_tasks_expiry` ON `dbq_tasks` (`expiry_at`);