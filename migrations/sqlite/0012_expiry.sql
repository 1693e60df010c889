ALTER TABLE `dbq_tasks` ADD `expires_at` integer;--> statement-breakpoint
CREATE INDEX `dbq_tasks_expiry` ON `dbq_tasks` (`expires_at`) WHERE expires_at is not null and started_at is null;