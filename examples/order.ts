/**
 * A saga whose workers are killed on the way: each order is charged, booked, approved by a person, packed and sent, however often
 * its process dies. A payment server in the main process fails at random, and sometimes after it has charged.
 *
 *     npx tsx --tsconfig examples/tsconfig.json examples/order.ts
 *
 * ORDERS=200 KILLS=100 sets how many; ORDERS_DB is the file, by default orders.db.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { currentTask, openQueue, type Queue, type TaskId, task, Worker } from "dbq-ts";
import { all, child, sleep, step, waitForEvent } from "dbq-ts/workflow";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

const file = process.env.ORDERS_DB ?? "orders.db";
const orders = Number(process.env.ORDERS ?? 20);
const kills = Number(process.env.KILLS ?? 10);

const ledger = sqliteTable("ledger", { id: integer("id").primaryKey(), order: text("order_id").notNull() });

// ---- the workflow ------------------------------------------------------------------------------

const pack = task("pack", async (order: string, part: string) => `${part} of ${order}`);
const send = task("send", async (order: string, parts: string[]) => `${order}: ${parts.join(", ")}`);

const order = task(
  "order",
  async (id: string) => {
    await step("charge", () => charge(id, currentTask().stepKey ?? ""), {
      maxRetries: 20,
      backoff: () => 20,
    });
    await step.within("book", (tx) => tx.insert(ledger).values({ order: id }).run());
    await sleep("cool off", 100);
    const approval = await waitForEvent<{ by: string }>(`approved:${id}`, { timeout: "1h" });
    const parts = await all([child(pack, id, "tea"), child(pack, id, "cake")]);
    return `${await child(send, id, parts)}, approved by ${approval?.by}`;
  },
  { maxRetries: 1_000, backoff: () => 0 },
);

/** With the same key, the server charges once, however often it is asked. */
async function charge(id: string, key: string): Promise<void> {
  const response = await fetch(`${process.env.PAYMENTS}/${id}`, {
    method: "POST",
    headers: { "idempotency-key": key },
  });
  if (!response.ok) throw new Error(`the payment server says ${response.status}`);
}

// ---- the processes -----------------------------------------------------------------------------

async function work(): Promise<void> {
  const queue = await openQueue(drizzle({ client: new Database(file) }));
  await new Worker(queue, { concurrency: 5, pollInterval: 100 }).start();
  process.send?.("ready");
}

/** A payment server that fails at random. `charged`: the keys with which each order was charged. */
async function payments() {
  const charged = new Map<string, Set<string>>();
  const server = createServer((request, response) => {
    const id = (request.url ?? "").slice(1);
    const lot = Math.random();
    // Before or after it has charged.
    if (lot > 0.2)
      charged.set(id, (charged.get(id) ?? new Set()).add(String(request.headers["idempotency-key"])));
    response.writeHead(lot > 0.4 ? 200 : 503).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    charged,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => server.close(),
  };
}

async function startWorker(url: string): Promise<ChildProcess> {
  const worker = fork(fileURLToPath(import.meta.url), ["work"], { env: { ...process.env, PAYMENTS: url } });
  await once(worker, "message");
  return worker;
}

/** In each round it enqueues some orders, approves those of the round before, and kills a worker. */
async function rounds(queue: Queue, url: string, names: readonly string[]) {
  const workers = [await startWorker(url), await startWorker(url)];
  const ids: TaskId<string>[] = [];
  const perRound = Math.ceil(names.length / Math.max(1, kills));
  for (let [at, killed] = [0, 0]; at < names.length || killed < kills; killed += 1) {
    const some = names.slice(at, at + perRound);
    ids.push(...(await queue.enqueueTasks(some.map((name) => [order, name] as const))));
    for (const name of names.slice(Math.max(0, at - perRound), at)) await approve(queue, name);
    at += some.length;
    await pause(Math.random() * 500);
    if (killed >= kills) continue;
    workers.shift()?.kill("SIGKILL");
    workers.push(await startWorker(url));
  }
  for (const name of names) await approve(queue, name);
  return { workers, ids };
}

/** Of two approvals the first counts. */
const approve = (queue: Queue, id: string) => queue.emitEvent(`approved:${id}`, { by: "Eva" });

async function main(): Promise<void> {
  const client = new Database(file);
  client.exec("create table if not exists ledger (id integer primary key, order_id text not null)");
  await using queue = await openQueue(drizzle({ client }));
  const { charged, url, close } = await payments();
  const names = Array.from({ length: orders }, (_, n) => `order-${n + 1}`);
  const { workers, ids } = await rounds(queue, url, names);
  const ended = await Promise.all(ids.map((id) => queue.awaitTaskCompletion(id, { timeout: "5m" })));
  for (const worker of workers) worker.kill("SIGKILL");
  close();
  const booked = client.prepare("select order_id, count(*) from ledger group by order_id").raw().all() as [
    string,
    number,
  ][];
  const countOnes = (counts: readonly number[]) => counts.filter((count) => count === 1).length;
  console.log(`${kills} kills`);
  console.log(`${ended.filter(({ status }) => status === "completed").length} of ${orders} orders completed`);
  console.log(`${countOnes([...charged.values()].map(({ size }) => size))} of ${charged.size} charged once`);
  console.log(`${countOnes(booked.map(([, count]) => count))} of ${booked.length} booked once`);
  console.log(`${await queue.countTasks({ func: "pack" }).then(({ completed }) => completed)} parts packed`);
  console.log(ended[0]?.result);
}

await (process.argv[2] === "work" ? work() : main());
