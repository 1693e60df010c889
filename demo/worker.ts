/** A worker process of the demo. `main.ts` starts several of them, each with the site's folder and DBQ_URL. */
import { openQueue, Worker } from "../src/index.ts";
import { loadPlan } from "./plan.ts";
import { type Context, renderPage, writeIndex } from "./tasks.ts";

const site = process.argv[2];
if (site === undefined) throw new TypeError("worker.ts: expected the folder of a site");

const plan = await loadPlan(site);
const queue = await openQueue();
const pages = new Map(plan.documents.map(({ path, page }) => [path, page]));
const worker = new Worker<Context>(queue, {
  queueName: plan.runId,
  tasks: [renderPage, writeIndex],
  context: { queue, plan, pages },
  concurrency: 4,
});

/** Running tasks may finish within the grace; the others are handed back. May be called twice. */
async function stop(): Promise<void> {
  await worker.stop({ grace: "2s" });
  await queue.close();
  process.exit();
}

// `disconnect`: the parent has died, and no other process would stop this one.
process.on("SIGINT", stop).on("SIGTERM", stop).on("disconnect", stop);
await worker.start();
process.send?.(worker.id);
