/** The tasks of an action on many, and those of the drain beside it. */
import { openQueue } from "dbq-ts";
import { fill } from "../processes/prefill.ts";
import { withConnection } from "../server/connection.ts";

const isServer = (location: string) => location.startsWith("postgres");

/** Creates dbq's tables in a file or at the URL of a Postgres, with so many failed tasks. */
export async function makeFailed(location: string, count: number): Promise<void> {
  await (await openQueue(location)).close();
  const now = isServer(location) ? "now()" : String(Date.now());
  await add(
    location,
    count,
    "func, args, queue_name, status, generation_id, retry_count, started_at, finished_at, error",
    (args) =>
      `'charge', ${args}, 'charges', 'failed', 9, 3, ${now}, ${now}, '{"name":"Error","message":"no"}'`,
  );
  await asAfterAutovacuum(location);
}

/** Adds pending tasks to drain. */
export async function addPending(location: string, count: number): Promise<void> {
  await add(location, count, "func, args", (args) => `'step', ${args}`);
}

async function add(
  location: string,
  count: number,
  columns: string,
  values: (args: string) => string,
): Promise<void> {
  const insert = `insert into dbq_tasks (${columns}) select ${values(
    isServer(location) ? "json_build_array(n)" : "'[' || n || ']'",
  )} from numbers`;
  if (isServer(location))
    await withConnection(location, ({ rows }) =>
      rows(`with numbers (n) as (select * from generate_series(0, ${count} - 1)) ${insert}`),
    );
  else fill(location, count, insert);
}

/** As autovacuum leaves the tables a minute later, and after a checkpoint. */
export async function asAfterAutovacuum(location: string): Promise<void> {
  if (!isServer(location)) return;
  await withConnection(location, async ({ rows }) => {
    await rows("vacuum (analyze) dbq_tasks");
    await rows("checkpoint").catch(() => []);
  });
}
