/** The app's tasks. */
import { currentTask, task } from "dbq-ts";
import { sleep, step } from "dbq-ts/workflow";
import { eq } from "drizzle-orm";
import type { AppDatabase } from "./database.ts";
import { orders } from "./schema.ts";

/** The context that the worker gives to its tasks. */
export interface AppContext {
  db: AppDatabase;
}

export const writeReceipt = task(
  "write-receipt",
  async (orderId: number): Promise<{ receipt: string }> => {
    const current = currentTask<AppContext>();
    const { db } = current.context;
    const order = db.select().from(orders).where(eq(orders.id, orderId)).get();
    if (order === undefined) throw new Error(`there is no order ${orderId}`);
    const receipt = `Order ${order.id}: ${order.quantity} x ${order.item}. Thank you!`;
    // One transaction: a crash at any moment leaves both the receipt and the completion, or neither.
    db.transaction(
      (tx) => {
        tx.update(orders).set({ receipt }).where(eq(orders.id, orderId)).run();
        current.within(tx).complete({ receipt });
      },
      { behavior: "immediate" },
    );
    return { receipt };
  },
  { maxRetries: 5, timeout: "30s" },
);

/** Asks the customer for a review, two days after the delivery. Meanwhile it waits in the database, without a process. */
export const askForReview = task("ask-for-review", async (orderId: number): Promise<void> => {
  await sleep("two days", "2d");
  await step.within("ask", (tx) => {
    tx.update(orders).set({ reviewAskedAt: new Date() }).where(eq(orders.id, orderId)).run();
  });
});
