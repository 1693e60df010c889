ALTER TABLE "dbq_workers" ADD COLUMN "request_id" text;--> statement-breakpoint
ALTER TABLE "dbq_workers" ADD COLUMN "requested_at" timestamp with time zone;