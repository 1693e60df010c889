/** The HTTP routes: place an order, read it, await its receipt, report its delivery. */
import { AwaitTimeoutError, type Queue } from "dbq-ts";
import { and, eq, gte, sql } from "drizzle-orm";
import { Hono } from "hono";
import type { AppDatabase } from "./database.ts";
import { orders, stock } from "./schema.ts";
import { askForReview, writeReceipt } from "./tasks.ts";

export function routes(db: AppDatabase, queue: Queue): Hono {
  const app = new Hono();

  app.post("/orders", async (c) => {
    const wanted: unknown = await c.req.json().catch(() => undefined);
    if (!isOrder(wanted)) return c.json({ error: 'expected {"item": string, "quantity": number}' }, 400);
    try {
      return c.json(placeOrder(db, queue, wanted), 201);
    } catch (error) {
      if (!(error instanceof OutOfStock)) throw error;
      return c.json({ error: `there is not enough ${wanted.item}` }, 409);
    }
  });

  // The courier calls this.
  app.post("/orders/:id/delivery", async (c) => {
    const order = orderOf(db, c.req.param("id"));
    if (order === undefined) return c.notFound();
    const id = await queue.enqueueTask(askForReview.with({ uniqueKey: `review:${order.id}` }), order.id);
    return c.json({ taskId: id }, 202);
  });

  app.get("/orders/:id", async (c) => {
    const order = orderOf(db, c.req.param("id"));
    if (order === undefined) return c.notFound();
    const task = order.taskId === null ? undefined : await queue.getTask(order.taskId);
    return c.json({
      ...order,
      task: task && { id: task.id, status: task.status, error: task.error?.message },
    });
  });

  app.get("/orders/:id/receipt", async (c) => {
    const order = orderOf(db, c.req.param("id"));
    if (order?.taskId == null) return c.notFound();
    // dbq deletes finished tasks after a week; the order keeps its receipt.
    if (order.receipt !== null) return c.json({ receipt: order.receipt });
    try {
      const task = await queue.awaitTaskCompletion(order.taskId, { timeout: "5s" });
      if (task.status !== "completed") return c.json({ error: task.error?.message }, 500);
      return c.json(task.result as { receipt: string });
    } catch (error) {
      if (error instanceof AwaitTimeoutError) return c.json({ status: "not yet: ask again" }, 202);
      throw error;
    }
  });

  return app;
}

interface Wanted {
  item: string;
  quantity: number;
}

/** Writes the order and its task, and reduces the stock, in one transaction. */
function placeOrder(db: AppDatabase, queue: Queue, { item, quantity }: Wanted) {
  return db.transaction(
    (tx) => {
      const order = tx.insert(orders).values({ item, quantity }).returning().get();
      const taskId = queue.within(tx).enqueueTask(writeReceipt, order.id);
      tx.update(orders).set({ taskId }).where(eq(orders.id, order.id)).run();
      const taken = tx
        .update(stock)
        .set({ left: sql`${stock.left} - ${quantity}` })
        .where(and(eq(stock.item, item), gte(stock.left, quantity)))
        .run();
      // Rolls back the order and the task.
      if (taken.changes === 0) throw new OutOfStock();
      return { ...order, taskId };
    },
    { behavior: "immediate" },
  );
}

class OutOfStock extends Error {}

function orderOf(db: AppDatabase, id: string) {
  return db
    .select()
    .from(orders)
    .where(eq(orders.id, Number(id)))
    .get();
}

function isOrder(value: unknown): value is Wanted {
  if (typeof value !== "object" || value === null) return false;
  const { item, quantity } = value as Partial<Wanted>;
  return typeof item === "string" && Number.isSafeInteger(quantity) && Number(quantity) > 0;
}
