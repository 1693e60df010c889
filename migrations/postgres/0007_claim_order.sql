DROP INDEX "dbq_tasks_claim";--> statement-breakpoint
DROP INDEX "dbq_tasks_group";--> statement-breakpoint
CREATE INDEX "dbq_tasks_claim" ON "dbq_tasks" USING btree ("queue_name","func",priority desc,(id + 0)) WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX "dbq_tasks_group" ON "dbq_tasks" USING btree ("queue_name","func","group_key",priority desc,(id + 0)) WHERE status = 'pending' and group_key is not null;