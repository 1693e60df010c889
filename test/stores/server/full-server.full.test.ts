/** A server that takes no more connections is waited for: nothing is refused, and all goes on when there is room. */
import { createConnection, type RowDataPacket } from "mysql2/promise";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { openQueue, task, Worker } from "../../../src/index.ts";
import { noMariadb, OwnMariadb } from "../../chaos/servers/own-mariadb.ts";
import { noPostgres, OwnPostgres } from "../../chaos/servers/own-postgres.ts";
import type { OwnServer } from "../../chaos/servers/own-server.ts";
import { isMissing, type Server } from "../../support/server.ts";

const most = 12;
const greet = task("greet in a full server", async (name: string) => `hello ${name}`);

interface Place {
  name: string;
  missing: string | undefined;
  start(): Promise<OwnServer>;
  /** What its URL lacks. */
  database: string;
  /** Opens one connection. @returns what ends it */
  connect(url: string): Promise<() => Promise<unknown>>;
  /** Counts the connections that the server refuses from now on. It needs one itself. */
  refusals(url: string): Promise<() => Promise<number>>;
}

const postgres: Place = {
  name: "Postgres",
  missing: noPostgres(),
  start: () => OwnPostgres.start(most),
  database: "",
  connect: async (url) => {
    const client = new Client({ connectionString: url });
    await client.connect();
    return () => client.end();
  },
  refusals: async () => {
    let count = 0;
    const { connect } = Client.prototype;
    Client.prototype.connect = function (this: Client) {
      return Reflect.apply(connect, this, []).catch((error: { code?: string }) => {
        if (error.code === "53300") count += 1;
        throw error;
      });
    } as typeof connect;
    onTestFinished(() => {
      Client.prototype.connect = connect;
    });
    return async () => count;
  },
};

const mariadb: Place = {
  name: "MariaDB",
  missing: noMariadb(),
  start: async () => {
    const server = await OwnMariadb.start();
    const client = await createConnection(server.url);
    await client.query(`set global max_connections = ${most}`);
    await client.query("create database app");
    await client.end();
    return server;
  },
  database: "app",
  connect: async (url) => {
    const client = await createConnection(url);
    return () => client.end();
  },
  refusals: async (url) => {
    const client = await createConnection(url);
    onTestFinished(() => client.end());
    const count = async () => {
      const [rows] = await client.query<RowDataPacket[]>(
        "show status like 'connection_errors_max_connections'",
      );
      return Number(rows[0]?.Value);
    };
    const before = await count();
    return async () => (await count()) - before;
  },
};

const serverOf = (reason: string | undefined): Server =>
  reason === undefined ? { url: "its own" } : { reason };

describe.each([postgres, mariadb])("a full $name", (place) => {
  describe.skipIf(isMissing(serverOf(place.missing)))("that has room again later", () => {
    let server: OwnServer;
    let url: string;
    beforeAll(async () => {
      server = await place.start();
      url = server.url + place.database;
    }, 120_000);
    afterAll(() => server?.[Symbol.asyncDispose]());

    /** Takes all connections that are left. @returns what gives them back */
    async function fill(): Promise<() => Promise<void>> {
      const ends: (() => Promise<unknown>)[] = [];
      const opened = async () => {
        try {
          ends.push(await place.connect(url));
          return true;
        } catch {
          return false;
        }
      };
      while (await opened());
      expect(ends.length).toBeGreaterThan(0);
      return async () => {
        for (const end of ends) await end();
      };
    }

    const untilRefused = async (refusals: () => Promise<number>, than: number) =>
      await vi.waitUntil(async () => (await refusals()) > than, { timeout: 10_000, interval: 20 });

    it("is waited for by openQueue", async () => {
      const refusals = await place.refusals(url);
      const release = await fill();
      const opening = openQueue(url);
      await untilRefused(refusals, await refusals());
      await release();
      const queue = await opening;
      onTestFinished(() => queue.close());
      expect((await queue.countTasks()).pending).toBe(0);
    });

    it("is waited for by a transaction, a worker that starts, and its heartbeats", async () => {
      const refusals = await place.refusals(url);
      const queue = await openQueue(url);
      onTestFinished(() => queue.close());
      const release = await fill();
      const worker = new Worker(queue, { tasks: [greet], lease: "1s" });
      await worker.start();
      const before = await refusals();
      const enqueued = queue.transaction(async (_, q) => await q.enqueueTask(greet, "you"));
      await untilRefused(refusals, before);
      await release();
      const done = await queue.awaitTaskCompletion(await enqueued, { timeout: "20s" });
      expect(done.result).toBe("hello you");
      await worker.stop();
    });
  });
});
