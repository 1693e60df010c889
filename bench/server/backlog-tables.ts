/** The tables that are drained on Postgres: small ones, and one with millions of other rows. */
import { openQueue } from "dbq-ts";
import { type Backlog, later } from "../processes/backlog-tables.ts";
import { type Connection, withConnection } from "./connection.ts";

/** Creates the tables with these rows, in the state in which autovacuum would leave them a minute later. */
export async function makeTable(url: string, backlog: Backlog): Promise<void> {
  await (await openQueue(url)).close();
  await withConnection(url, async (connection) => {
    await addFinished(connection, "completed", backlog.completed, "result");
    await addFinished(connection, "failed", backlog.failed, "error");
    await addPending(connection, backlog.elsewhere, "'urgent'", 5, "elsewhere");
    await addLater(connection, backlog.later);
    await add(
      connection,
      backlog.scheduled,
      "func, args, status, wait_until",
      "'urgent', args, 'scheduled', now() + interval '1 day' + n * interval '1 second'",
    );
    await connection.rows("vacuum (analyze) dbq_tasks");
    await connection.rows("checkpoint").catch(() => []);
  });
}

/** The tasks that a drain measures. Some are left when the last urgent task starts. */
export async function addUrgent(url: string, count: number): Promise<void> {
  await withConnection(url, async (connection) => {
    await addPending(connection, count, "'urgent'", 5, "default");
    await addLater(connection, Math.ceil(count / 10));
  });
}

async function addFinished(
  connection: Connection,
  status: string,
  count: number,
  what: string,
): Promise<void> {
  const at = `now() - interval '1 day' + n * interval '1 day' / ${count}`;
  await add(
    connection,
    count,
    `func, args, status, generation_id, started_at, finished_at, ${what}`,
    `'urgent', args, '${status}', 3, ${at}, ${at}, '{"name":"Error","message":"no"}'`,
  );
}

/** The tasks after the urgent ones: one function after the other, in rotation. */
async function addLater(connection: Connection, count: number): Promise<void> {
  await addPending(connection, count, `'later-' || (n % ${later.length})`, 1, "default");
}

async function addPending(
  connection: Connection,
  count: number,
  func: string,
  priority: number,
  queueName: string,
): Promise<void> {
  await add(
    connection,
    count,
    "func, args, priority, queue_name",
    `${func}, args, ${priority}, '${queueName}'`,
  );
}

async function add({ rows }: Connection, count: number, columns: string, values: string): Promise<void> {
  if (count === 0) return;
  await rows(`insert into dbq_tasks (${columns}) select ${values}
    from (select n, json_build_array(n) as args from generate_series(0, ${count} - 1) as n) as numbered`);
}
