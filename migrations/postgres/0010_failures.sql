CREATE TABLE "dbq_failures" (
	"id" text NOT NULL,
	"func" text NOT NULL,
	"error_name" text NOT NULL,
	"message" text NOT NULL,
	"minute" timestamp with time zone NOT NULL,
	"span" integer DEFAULT 1 NOT NULL,
	"count" bigint DEFAULT 0 NOT NULL,
	"first_at" timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
	"last_at" timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
	"sample" bigint,
	CONSTRAINT "dbq_failures_id_minute_span_pk" PRIMARY KEY("id","minute","span")
);
--> statement-breakpoint
ALTER TABLE "dbq_attempts" ADD COLUMN "failure" text;--> statement-breakpoint
ALTER TABLE "dbq_tasks" ADD COLUMN "failure" text;--> statement-breakpoint
CREATE INDEX "dbq_failures_minute" ON "dbq_failures" USING btree ("span","minute");--> statement-breakpoint
CREATE INDEX "dbq_tasks_failure" ON "dbq_tasks" USING btree ("failure","id") WHERE failure is not null;