CREATE TABLE "dbq_agents" (
	"name" text PRIMARY KEY NOT NULL,
	"token_hash" text NOT NULL,
	"funcs" json NOT NULL,
	"queues" json NOT NULL,
	"created_at" timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
	"last_seen_at" timestamp with time zone,
	"expires_at" timestamp with time zone,
	"revoked_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "dbq_drains" (
	"queue_name" text PRIMARY KEY NOT NULL,
	"worker_id" text,
	"generation_id" bigint DEFAULT 1 NOT NULL,
	"target" text,
	"updated_at" timestamp with time zone DEFAULT statement_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "dbq_settings" (
	"name" text PRIMARY KEY NOT NULL,
	"value" text NOT NULL
);
--> statement-breakpoint
DROP INDEX "dbq_tasks_unique";--> statement-breakpoint
ALTER TABLE "dbq_tasks" ADD COLUMN "group_key" text;--> statement-breakpoint
ALTER TABLE "dbq_tasks" ADD COLUMN "uses" json;--> statement-breakpoint
ALTER TABLE "dbq_tasks" ADD COLUMN "unique_until" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "dbq_tasks" ADD COLUMN "schedule_name" text;--> statement-breakpoint
ALTER TABLE "dbq_tasks" ADD COLUMN "slot" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "dbq_tasks" ADD COLUMN "parent_id" bigint;--> statement-breakpoint
ALTER TABLE "dbq_tasks" ADD COLUMN "root_id" bigint;--> statement-breakpoint
ALTER TABLE "dbq_tasks" ADD COLUMN "manual_retries" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "dbq_tasks_unique" ON "dbq_tasks" USING btree ("unique_key") WHERE unique_key is not null and (status in ('pending', 'scheduled', 'running') or status = 'waiting' or unique_until is not null);