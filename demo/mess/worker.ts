/** A worker process of the mess: `processes.ts` starts it with its role and DBQ_URL. */
import { openQueue, Worker, type WorkerOptions } from "../../src/index.ts";
import {
  buildReport,
  chargeCard,
  convertVideo,
  importFeed,
  indexProduct,
  rebuildIndex,
  sendInvoice,
  sendNewsletter,
  syncWarehouse,
} from "./tasks.ts";

/** So long that a stopped worker stays silent without being declared dead. */
const warehouseLease = "1h";

export const roles = {
  shop: [
    { concurrency: 10, tasks: [sendInvoice, importFeed] },
    { queueName: "payments", concurrency: 5, tasks: [chargeCard] },
    { queueName: "search", concurrency: 1, tasks: [indexProduct, rebuildIndex] },
    { queueName: "reports", concurrency: 1, tasks: [buildReport] },
    { queueName: "mail", concurrency: 5, tasks: [sendNewsletter] },
  ],
  warehouse: [{ queueName: "warehouse", concurrency: 1, tasks: [syncWarehouse], lease: warehouseLease }],
  video: [{ queueName: "videos", concurrency: 1, tasks: [convertVideo] }],
} satisfies Record<string, WorkerOptions[]>;

export type Role = keyof typeof roles;

const role = process.argv[2];
if (role === undefined || !Object.hasOwn(roles, role))
  throw new TypeError(`worker.ts: expected a role such as "shop", got ${JSON.stringify(role)}`);

const queue = await openQueue();
const workers = roles[role as Role].map((options: WorkerOptions) => new Worker(queue, options));

/** A process that is stopped by SIGSTOP cannot see that its parent has died: this one ends it then. */
let stopped: number | undefined;
process.on("message", (pid: number) => {
  stopped = pid;
});

async function stop(): Promise<void> {
  await Promise.all(workers.map((worker) => worker.stop({ grace: 0 })));
  await queue.close();
  process.exit();
}

async function onOrphaned(): Promise<void> {
  try {
    if (stopped !== undefined) process.kill(stopped, "SIGKILL");
  } catch {
    // It has ended.
  }
  await stop();
}

// Ctrl-C reaches all processes of a terminal: the parent looks once more at what is wrong, and then stops this one.
process.on("SIGINT", () => undefined);
process.on("SIGTERM", stop).on("disconnect", onOrphaned);
await Promise.all(workers.map((worker) => worker.start()));
process.send?.(workers[0]?.id);
