/** One worker process of the demo. `main.ts` starts several of them, and gives each the site's folder and DBQ_URL. */
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

/** What is running may end within the grace; the rest is handed back to whoever comes next. May be called twice. */
async function stop(): Promise<void> {
  await worker.stop({ grace: "2s" });
  await queue.close();
  process.exit();
}

// Without its parent nobody would ever stop it.
process.on("SIGINT", stop).on("SIGTERM", stop).on("disconnect", stop);
await worker.start();
process.send?.(worker.id);
