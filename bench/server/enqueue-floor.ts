/** The floor: the same columns by node-postgres. One by one, each insert is a prepared statement; a batch is one statement. */
import type { Entry } from "../batches.ts";
import { checkEnqueued, type EnqueueVariant, enqueueAll } from "../enqueue/variants.ts";
import type { Timed } from "../warm-up.ts";
import { withConnection } from "./connection.ts";
import { onServer } from "./databases.ts";
import { openRaw, type RawTask, rawInsert, rawInsertMany } from "./raw-postgres.ts";

const row = ({ n, payload }: Entry): RawTask => ({ func: "work", args: JSON.stringify([n, payload]) });
const pending = "select count(*) from dbq_tasks where status = 'pending'";

export function enqueueFloor(): Timed<EnqueueVariant> {
  return onServer("postgres", async (run) => {
    const client = await openRaw(run.url);
    const insertMany = (batch: readonly Entry[]) => rawInsertMany(client, batch.map(row));
    const enqueuer = {
      one: (entry: Entry) => rawInsert(client, row(entry)),
      tick: insertMany,
      many: insertMany,
    };
    const milliseconds = await enqueueAll(run, enqueuer);
    await client.end();
    checkEnqueued(await withConnection(run.url, ({ number }) => number(pending)), run.tasks);
    return milliseconds;
  });
}
