/** A process has few connections to a server, however many queues and workers it has on it. */
import type { RowDataPacket } from "mysql2/promise";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { openQueue, type Queue, task, Worker } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing, type Server } from "../../support/server.ts";

const echo = task("echo over few connections", async (n: number) => n);

interface Place {
  name: string;
  server: Server;
  /** Two for statements, one for the heartbeats of all workers, and on Postgres one that listens. */
  most: number;
  make(): Promise<{ url: string; connections(): Promise<number>; drop(): Promise<void> }>;
}

const postgres: Place = {
  name: "Postgres",
  server: await postgresServer(),
  most: 4,
  make: async () => {
    const { url, name, client, drop } = await newSchema();
    const text = "select count(*) from pg_stat_activity where application_name = $1";
    return {
      url: `${url}&application_name=${name}`,
      connections: async () => Number((await client.query(text, [name])).rows[0]?.count),
      drop,
    };
  },
};

const mysql: Place = {
  name: "MySQL",
  server: await mysqlServer(),
  most: 3,
  make: async () => {
    const { url, name, client, drop } = await newDatabase();
    const text =
      "select count(*) as n from information_schema.processlist where db = ? and id <> connection_id()";
    const connections = async () => Number((await client.query<RowDataPacket[]>(text, [name]))[0][0]?.n);
    return { url, connections, drop };
  },
};

describe.each([postgres, mysql])("a process on $name", ({ server, most, make }) => {
  const work = (queues: readonly Queue[]) =>
    Promise.all(queues.flatMap((queue) => Array.from({ length: 20 }, (_, n) => queue.enqueueTask(echo, n))));

  it.skipIf(isMissing(server))(
    "has few connections with two queues and two workers, and ends them with the last queue",
    async () => {
      const { url, connections, drop } = await make();
      onTestFinished(drop);
      const queues = [await openQueue(url), await openQueue(url)] as const;
      onTestFinished(async () => {
        for (const queue of queues) await queue.close();
      });
      const workers = queues.map((queue) => new Worker(queue, { tasks: [echo] }));
      await Promise.all(workers.map((worker) => worker.start()));
      const ids = await work(queues);
      await Promise.all(ids.map((id) => queues[1].awaitTaskCompletion(id, { timeout: "20s" })));
      await vi.waitUntil(async () => (await connections()) === most, { timeout: 10_000, interval: 20 });

      await queues[0].close();
      const [last = 0] = (await work([queues[1]])).slice(-1);
      await expect(queues[1].awaitTaskCompletion(last, { timeout: "20s" })).resolves.toMatchObject({
        status: "completed",
      });
      await queues[1].close();
      await vi.waitUntil(async () => (await connections()) === 0, { timeout: 10_000, interval: 20 });
    },
  );

  it.skipIf(isMissing(server))("doctor counts the connections of dbq, of all, and of the limit", async () => {
    const { url, drop } = await make();
    onTestFinished(drop);
    const queue = await openQueue(url);
    onTestFinished(() => queue.close());
    const facts = new Map((await queue.diagnose()).map(({ name, value }) => [name, Number(value)]));
    const [ours = 0, all = 0, limit = 0] = [
      facts.get("connections of dbq") ?? facts.get("connections of this user"),
      facts.get("connections"),
      facts.get("max connections"),
    ];
    expect(ours).toBeGreaterThan(0);
    expect(all).toBeGreaterThanOrEqual(ours);
    expect(limit).toBeGreaterThanOrEqual(all);
  });
});
