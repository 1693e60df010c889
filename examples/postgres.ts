/**
 * An app on Postgres with its own Drizzle database over node-postgres. One transaction writes an order and its task, another
 * one the receipt and the task's completion. The worker is in the same process here; it could be on any machine.
 *
 *     docker compose up --wait postgres
 *     DATABASE_URL=postgres://postgres:postgres@127.0.0.1/postgres npx tsx --tsconfig examples/tsconfig.json examples/postgres.ts
 */
import { currentTask, openQueue, task, Worker } from "dbq-ts";
import { eq, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable, serial, text } from "drizzle-orm/pg-core";
import { Pool } from "pg";

const orders = pgTable("shop_orders", {
  id: serial("id").primaryKey(),
  item: text("item").notNull(),
  quantity: integer("quantity").notNull(),
  receipt: text("receipt"),
});

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const db = drizzle({ client: pool });
// An app would generate this with drizzle-kit.
await db.execute(sql`create table if not exists shop_orders (id serial primary key, item text not null,
  quantity integer not null, receipt text)`);

const writeReceipt = task("write-receipt", async (orderId: number): Promise<string> => {
  const current = currentTask();
  return await db.transaction(async (tx) => {
    const [order] = await tx.select().from(orders).where(eq(orders.id, orderId));
    const receipt = `Order ${orderId}: ${order?.quantity} x ${order?.item}. Thank you!`;
    await tx.update(orders).set({ receipt }).where(eq(orders.id, orderId));
    // One transaction: a crash at any moment leaves both the receipt and the completion, or neither.
    await current.within(tx).complete(receipt);
    return receipt;
  });
});

const queue = await openQueue(db);
const worker = new Worker(queue, { tasks: [writeReceipt], concurrency: 5 });
await worker.start();

function placeOrder(item: string, quantity: number) {
  return db.transaction(async (tx) => {
    const [order] = await tx.insert(orders).values({ item, quantity }).returning();
    if (order === undefined) throw new Error("the order was not written");
    const taskId = await queue.within(tx).enqueueTask(writeReceipt, order.id);
    // Rolls back the order and the task.
    if (quantity > 10) throw new RangeError(`there is not enough ${item}`);
    return { order, taskId };
  });
}

const { order, taskId } = await placeOrder("tea", 3);
console.log(await queue.awaitTaskResult(taskId));
const [kept] = await db.select().from(orders).where(eq(orders.id, order.id));
console.log(`kept with the order: ${kept?.receipt}`);

const refused = await placeOrder("cake", 100).catch((error: unknown) => String(error));
console.log(refused);
const { pending, running, completed } = await queue.countTasks({ func: writeReceipt.taskName });
console.log(`tasks: ${pending + running} to do, ${completed} completed`);

await worker.stop();
await queue.close();
await pool.end();
