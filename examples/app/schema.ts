/** The app's own tables. They are in the same file as dbq's, so that one transaction can write to both. */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const stock = sqliteTable("stock", {
  item: text("item").primaryKey(),
  left: integer("left").notNull(),
});

export const orders = sqliteTable("orders", {
  id: integer("id").primaryKey({ autoIncrement: true }),
  item: text("item").notNull(),
  quantity: integer("quantity").notNull(),
  /** The task that writes the receipt. */
  taskId: integer("task_id"),
  receipt: text("receipt"),
  reviewAskedAt: integer("review_asked_at", { mode: "timestamp" }),
});
