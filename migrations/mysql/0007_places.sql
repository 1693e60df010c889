ALTER TABLE `dbq_tasks`
	ADD `due_at` datetime(3) GENERATED ALWAYS AS ((case when `status` = 'scheduled' then coalesce(`wait_until`, timestamp'1970-01-01 00:00:00') end)) VIRTUAL,
	ADD `run_by` varchar(255) character set utf8mb4 collate utf8mb4_bin GENERATED ALWAYS AS ((case when `status` = 'running' then `worker_id` end)) VIRTUAL,
	ADD `ended_as` varchar(16) character set utf8mb4 collate utf8mb4_bin GENERATED ALWAYS AS ((case when `status` in ('completed', 'failed', 'cancelled') then `status` end)) VIRTUAL;--> statement-breakpoint
ALTER TABLE `dbq_tasks`
	DROP INDEX `dbq_tasks_due`,
	DROP INDEX `dbq_tasks_running`,
	DROP INDEX `dbq_tasks_finished`,
	ADD INDEX `dbq_tasks_due` (`due_at`),
	ADD INDEX `dbq_tasks_running` (`run_by`),
	ADD INDEX `dbq_tasks_finished` (`ended_as`,`finished_at`);
