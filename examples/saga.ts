/**
 * A saga whose processes are killed on the way: each order is charged, waits for a confirmation, is booked and shipped. Half of the
 * orders fail at the last step or are cancelled. Each step that these have stored is undone, however often a process dies; no step of
 * the other orders is.
 *
 *     npx tsx --tsconfig examples/tsconfig.json examples/saga.ts
 *
 * ORDERS=200 KILLS=100 sets how many; ORDERS_DB is the file, by default saga.db.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { openQueue, type Queue, type TaskId, task, Worker } from "dbq-ts";
import { step, waitForEvent } from "dbq-ts/workflow";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

const file = process.env.ORDERS_DB ?? "saga.db";
const orders = Number(process.env.ORDERS ?? 20);
const kills = Number(process.env.KILLS ?? 10);

/** A line for each step that was done or undone. */
const ledger = sqliteTable("ledger", {
  id: integer("id").primaryKey(),
  order: text("order_id").notNull(),
  what: text("what").notNull(),
});

// ---- the workflow ------------------------------------------------------------------------------

/** Writes a line of the ledger, and takes it back by another one. */
const entry = (order: string, what: string, back: string) =>
  step.within(what, (tx) => tx.insert(ledger).values({ order, what }).run().changes as number, {
    undo: (tx) => tx.insert(ledger).values({ order, what: back }).run(),
  });

const order = task(
  "order",
  async (id: string, canShip: boolean) => {
    await entry(id, "charge", "refund");
    const confirmed = await waitForEvent(`confirmed:${id}`, { timeout: "3d" });
    if (!confirmed) throw new Error("nobody has confirmed it");
    await entry(id, "book", "cancel booking");
    await step("ship", () => {
      if (!canShip) throw new Error("sold out");
    });
  },
  { maxRetries: 3, backoff: () => 50 },
);

// ---- the processes -----------------------------------------------------------------------------

async function work(): Promise<void> {
  const queue = await openQueue(drizzle({ client: new Database(file) }));
  await new Worker(queue, { concurrency: 5, pollInterval: 100 }).start();
  process.send?.("ready");
}

async function startWorker(): Promise<ChildProcess> {
  const worker = fork(fileURLToPath(import.meta.url), ["work"]);
  await once(worker, "message");
  return worker;
}

/** Of four orders, two are shipped, the third one is sold out, and the fourth one is cancelled. */
const kindOf = (n: number) => (["shipped", "shipped", "sold out", "cancelled"] as const)[n % 4];

async function act(queue: Queue, id: TaskId, n: number): Promise<void> {
  if (kindOf(n) === "cancelled") await queue.cancelTask(id);
  else await queue.emitEvent(`confirmed:${n}`, true);
}

async function main(): Promise<void> {
  const client = new Database(file);
  client.exec(
    "create table if not exists ledger (id integer primary key, order_id text not null, what text not null)",
  );
  await using queue = await openQueue(drizzle({ client }));
  const numbers = Array.from({ length: orders }, (_, n) => n);
  const workers = [await startWorker(), await startWorker()];
  const ids = await queue.enqueueTasks(
    numbers.map((n) => [order, String(n), kindOf(n) !== "sold out"] as const),
  );
  const perRound = Math.ceil(orders / Math.max(1, kills));
  for (let round = 0; round < Math.max(1, kills); round += 1) {
    await pause(Math.random() * 500);
    for (const n of numbers.slice(round * perRound, (round + 1) * perRound))
      await act(queue, ids[n] as TaskId, n);
    if (round >= kills) break;
    workers.shift()?.kill("SIGKILL");
    workers.push(await startWorker());
  }
  // A task whose process dies three times fails, too, and is undone.
  const ended = await Promise.all(ids.map((id) => queue.awaitTaskCompletion(id, { timeout: "5m" })));
  for (const worker of workers) worker.kill("SIGKILL");
  const lines = client.prepare("select count(*) from ledger where order_id = ? and what = ?").pluck();
  const isRight = (n: number) => {
    const [charged = 0, refunded, booked = 0, unbooked] = ["charge", "refund", "book", "cancel booking"].map(
      (what) => lines.get(String(n), what) as number,
    );
    if (ended[n]?.status === "completed") return [charged, refunded, booked, unbooked].join() === "1,0,1,0";
    return charged === refunded && booked === unbooked && charged <= 1 && booked <= 1;
  };
  const areUndone = ended.every(({ error, status }) => status === "completed" || error?.undo === undefined);
  console.log(`${kills} kills`);
  console.log(`${ended.length} of ${orders} orders ended`);
  console.log(`${numbers.filter(isRight).length} with each step once, and undone once if the order failed`);
  console.log(areUndone ? "no undo failed" : "some undos failed");
}

await (process.argv[2] === "work" ? work() : main());
