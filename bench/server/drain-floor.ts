/** The floor: one connection, and one statement that settles a batch and claims the next, as large as dbq has slots. */
import type pg from "pg";
import { batches } from "../batches.ts";
import { checkCompleted, type DrainVariant, type Handler, Handlers } from "../drain/variants.ts";
import type { Timed } from "../warm-up.ts";
import { settle, withConnection } from "./connection.ts";
import { onServer, type ServerRun } from "./databases.ts";
import { type Claimed, type Finished, openRaw, rawInsertMany, rawTurn } from "./raw-postgres.ts";

export function drainFloor({ wait, concurrency }: DrainVariant): Timed<DrainVariant> {
  const { handler } = new Handlers(wait);
  return onServer("postgres", async (run) => {
    const client = await openRaw(run.url);
    await fill(client, run);
    await settle(run.url);
    const start = performance.now();
    await drain(client, handler, concurrency);
    const milliseconds = performance.now() - start;
    await client.end();
    checkCompleted(await completedIn(run.url), run.tasks);
    return milliseconds;
  });
}

async function fill(client: pg.Client, { variant, tasks }: ServerRun<DrainVariant>): Promise<void> {
  for (const batch of batches(variant.payload, tasks)) {
    await rawInsertMany(
      client,
      batch.map(({ n, payload }) => ({ func: "work", args: JSON.stringify([n, payload]) })),
    );
  }
}

async function drain(client: pg.Client, handler: Handler, size: number): Promise<void> {
  let finished: Finished[] = [];
  for (;;) {
    const claimed = await rawTurn(client, "work", finished, size);
    if (claimed.length === 0) return;
    finished = await Promise.all(claimed.map((task) => attempt(task, handler)));
  }
}

async function attempt([id, generation, args]: Claimed, handler: Handler): Promise<Finished> {
  const result = await handler(...(JSON.parse(args) as Parameters<Handler>));
  return { id, generation, result: JSON.stringify(result) };
}

async function completedIn(url: string): Promise<number> {
  const completed = "select count(*) from dbq_tasks where status = 'completed' and result is not null";
  return await withConnection(url, ({ number }) => number(completed));
}
