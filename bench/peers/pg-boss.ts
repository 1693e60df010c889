/** pg-boss, with a queue named "work". */
import { PgBoss } from "pg-boss";
import { type Connection, withConnection } from "../server/connection.ts";

export const queue = "work";

/** `listen`: its workers are notified of new jobs at once, which costs each enqueue a notification. */
export async function openBoss(url: string, { listen = false } = {}): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString: url, useListenNotify: listen });
  boss.on("error", (error) => process.stderr.write(`pg-boss: ${error.message}\n`));
  await boss.start();
  await boss.createQueue(queue, { notify: listen });
  return boss;
}

/** Calls `use` with a running pg-boss. */
export async function withBoss<T>(url: string, use: (boss: PgBoss) => Promise<T>): Promise<T> {
  const boss = await openBoss(url);
  try {
    return await use(boss);
  } finally {
    await boss.stop({ graceful: false, close: true });
  }
}

const countOf = (condition: string) =>
  `select count(*) from pgboss.job where name = '${queue}' and ${condition}`;

export async function countJobs(url: string, state: "created" | "completed"): Promise<number> {
  return await withConnection(url, ({ number }) => number(countOf(`state = '${state}'`)));
}

/** Resolves when the last job is recorded as completed. */
export async function allCompleted({ number }: Connection): Promise<void> {
  const unfinished = `select count(*) from (select from pgboss.job where name = '${queue}' and state < 'completed' limit 1) j`;
  while ((await number(unfinished)) > 0) await new Promise((resolve) => setTimeout(resolve, 1));
}
