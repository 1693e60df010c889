/** dbq: steps of tasks, and single enqueues that are awaited, beside which a step's cost is seen. */
import { join } from "node:path";
import { openQueue, type Queue, task, Worker } from "dbq-ts";
import { step } from "dbq-ts/workflow";
import type { Figures, Settings } from "../benchmark.ts";
import { withConnection } from "../server/connection.ts";
import { withDatabase } from "../server/databases.ts";
import { type Answer, measureSteps, type StepRunner, type StepVariant, Stopwatch } from "./variants.ts";

type Place = "sqlite" | "postgres";
type StepSettings = Settings<StepVariant>;

const stopwatch = new Stopwatch();

const work = task("workflow-work", (steps: number) => stopwatch.measured(steps, step));

/** What is enqueued beside the steps: it has one of their values as its argument. */
const single = task("single", (answer: Answer) => answer.n);

/** Calls `use` with the place of a new database. */
function inDatabase<T>(on: Place, { directory }: StepSettings, use: (url: string) => Promise<T>): Promise<T> {
  return on === "sqlite" ? use(join(directory, "dbq.db")) : withDatabase(on, use);
}

function open(on: Place, url: string, { synchronous }: StepSettings): Promise<Queue> {
  return openQueue(url, on === "sqlite" ? { synchronous } : {});
}

export async function storedSteps(on: Place, url: string): Promise<number> {
  const text = "select count(*) from dbq_steps";
  if (on === "postgres") return await withConnection(url, ({ number }) => number(text));
  const { default: Database } = await import("better-sqlite3");
  const db = new Database(url, { readonly: true });
  try {
    return db.prepare<[], number>(text).pluck().get() ?? 0;
  } finally {
    db.close();
  }
}

export function measureDbq(on: Place): (settings: StepSettings) => Promise<Figures> {
  return (settings) =>
    inDatabase(on, settings, (url) =>
      measureSteps(settings, async (): Promise<StepRunner> => {
        const queue = await open(on, url, settings);
        const worker = new Worker(queue, { concurrency: settings.variant.concurrency, tasks: [work] });
        const failed = new Promise<never>((_, reject) => {
          worker.on("error", reject);
        });
        await worker.start();
        return {
          async run({ tasks, steps }) {
            const all = stopwatch.times(tasks);
            const ids = await queue.enqueueTasks(Array.from({ length: tasks }, () => [work, steps] as const));
            await Promise.race([all, failed]);
            await worker.idle();
            const spent = stopwatch.spent();
            const ended = await Promise.all(ids.map((id) => queue.getTask(id)));
            return { spent, results: ended.map((each) => each?.status === "completed" && each.result) };
          },
          stored: () => storedSteps(on, url),
          async [Symbol.asyncDispose]() {
            await worker.stop();
            await queue.close();
          },
        };
      }),
    );
}

/** As many single enqueues as the variant has steps, each awaited. Nothing runs the tasks. */
export function measureEnqueue(on: Place): (settings: StepSettings) => Promise<Figures> {
  return (settings) =>
    inDatabase(on, settings, (url) =>
      measureSteps(settings, async (): Promise<StepRunner> => {
        const queue = await open(on, url, settings);
        return {
          async run({ steps }) {
            void stopwatch.times(1);
            const sum = await stopwatch.measured(steps, async (_name, fn) => {
              const answer = fn();
              await queue.enqueueTask(single, answer);
              return answer;
            });
            return { spent: stopwatch.spent(), results: [sum] };
          },
          stored: async () => (await queue.countTasks()).pending,
          [Symbol.asyncDispose]: () => queue.close(),
        };
      }),
    );
}
