/**
 * A small shop: one process and one SQLite file, with its own tables beside the queue's.
 *
 *     npx tsx --tsconfig examples/tsconfig.json examples/app/main.ts
 *     curl -X POST localhost:3000/orders -H 'content-type: application/json' -d '{"item":"tea","quantity":2}'
 *     curl localhost:3000/orders/1/receipt
 */
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { openQueue, Worker } from "dbq-ts";
import { openDatabase } from "./database.ts";
import { routes } from "./routes.ts";
import { type AppContext, askForReview, writeReceipt } from "./tasks.ts";

const db = openDatabase(process.env.SHOP_DB ?? "shop.db");
const queue = await openQueue(db);
const context: AppContext = { db };
const worker = new Worker(queue, { concurrency: 5, tasks: [writeReceipt, askForReview], context });
await worker.start();

const server = serve(
  { fetch: routes(db, queue).fetch, port: Number(process.env.PORT ?? 3_000) },
  ({ port }: AddressInfo) => console.log(`listening on http://localhost:${port}`),
);

let stopping = false;

/** Takes no more requests and tasks, and lets running ones finish. A second signal does not wait for them. */
async function shutDown(): Promise<void> {
  if (stopping) return await worker.stop({ grace: 0 });
  stopping = true;
  const closed = new Promise((resolve) => server.close(resolve));
  await worker.stop({ grace: "10s" });
  await closed;
  await queue.close();
  db.$client.close();
  console.log("stopped");
}

process.on("SIGTERM", shutDown);
process.on("SIGINT", shutDown);
