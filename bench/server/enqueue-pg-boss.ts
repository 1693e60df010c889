/** pg-boss: `send`, and `insert` for many. */
import type { PgBoss } from "pg-boss";
import { checkEnqueued, type Enqueuer, type EnqueueVariant, enqueueAll } from "../enqueue/variants.ts";
import { countJobs, queue, withBoss } from "../peers/pg-boss.ts";
import type { Timed } from "../warm-up.ts";
import { onServer } from "./databases.ts";

function enqueuerOf(boss: PgBoss): Enqueuer {
  return {
    one: (data) => boss.send(queue, data),
    tick: (batch) => Promise.all(batch.map((data) => boss.send(queue, data))),
    many: (batch) =>
      boss.insert(
        queue,
        batch.map((data) => ({ data })),
        { returnId: true },
      ),
  };
}

export function enqueuePgBoss(): Timed<EnqueueVariant> {
  return onServer("postgres", async (run) => {
    const milliseconds = await withBoss(run.url, (boss) => enqueueAll(run, enqueuerOf(boss)));
    checkEnqueued(await countJobs(run.url, "created"), run.tasks);
    return milliseconds;
  });
}
