/**
 * A flow of BullMQ, as a plain function: a report waits for three children of three functions. One of them fails at first and is
 * retried, and one fails for good, without which the report goes on. The worker has one slot: a parent that waits needs none.
 *
 *     npx tsx --tsconfig examples/tsconfig.json examples/flow.ts
 *
 * docs/coming-from-bullmq.md has the same flow in BullMQ's words. FLOW_DB is the file, by default flow.db.
 */
import { currentTask, openQueue, task, Worker } from "dbq-ts";
import { child, settled } from "dbq-ts/workflow";

const sales = task("sales", async (month: string) => ({ month, pieces: 128 }));

/** The first attempt fails. The retry is this child's own: the report does not notice it. */
const chart = task(
  "chart",
  async (month: string) => {
    if (currentTask().retryCount === 0) throw new Error("the chart server does not answer");
    return `chart-${month}.svg`;
  },
  { backoff: () => 100 },
);

class NoRatings extends Error {}

/** It fails for good at once: a retry cannot help, and `retryOn` says so. */
const rating = task(
  "rating",
  async (month: string): Promise<number> => {
    throw new NoRatings(`nobody rated anything in ${month}`);
  },
  { retryOn: (error) => !(error instanceof NoRatings) },
);

const report = task("report", async (month: string) => {
  // All three run at once, on any worker. The results stand in the order of the calls, whichever child ends first.
  const [sold, drawn, rated] = await settled([
    child(sales, month),
    child(chart, month),
    child(rating, month),
  ]);
  // Without these two there is no report: it fails with their error, as with BullMQ's `failParentOnFailure`.
  if (sold.status === "rejected") throw sold.reason;
  if (drawn.status === "rejected") throw drawn.reason;
  // Without this one there is, as with `ignoreDependencyOnFailure`.
  const stars = rated.status === "fulfilled" ? `${rated.value} stars` : "no stars";
  return `${sold.value.month}: ${sold.value.pieces} pieces, ${drawn.value}, ${stars}`;
});

await using queue = await openQueue(process.env.FLOW_DB ?? "flow.db");
const worker = new Worker(queue, { concurrency: 1 });
await worker.start();

const id = await queue.enqueueTask(report, "May");
console.log(await queue.awaitTaskResult(id, { timeout: "1m" }));

// The whole tree, as BullMQ's `getFlow` gives it.
const run = await queue.getRun(id);
for (const { task: part } of run?.children ?? [])
  console.log(
    `${part.func}: ${part.status}, retries: ${part.retryCount}${part.error ? `, ${part.error.message}` : ""}`,
  );

await worker.stop();
