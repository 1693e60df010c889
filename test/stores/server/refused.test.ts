/**
 * Connections that cannot be made: one whose settings are refused is closed, and one whose host name cannot be resolved
 * is retried.
 */
import dns from "node:dns";
import { type AddressInfo, createServer } from "node:net";
import type { Connection } from "mysql2/promise";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { DatabaseError } from "../../../src/errors.ts";
import { openMysql } from "../../../src/stores/mysql/store.ts";
import { openPostgres } from "../../../src/stores/postgres/store.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";

const mysql = await mysqlServer();
const postgres = await postgresServer();

/** A user who may run one query; undefined where no user can be created. */
async function userOfOneQuestion(client: Connection, name: string): Promise<string | undefined> {
  try {
    await client.query(`create user '${name}'@'%' identified by '${name}' with max_queries_per_hour 1`);
  } catch {
    return undefined;
  }
  onTestFinished(async () => void (await client.query(`drop user '${name}'@'%'`)));
  return name;
}

describe.skipIf(isMissing(mysql))("a connection whose settings MySQL refuses", () => {
  it("is closed", async ({ skip }) => {
    const { name, url, client, drop } = await newDatabase();
    onTestFinished(drop);
    const user = await userOfOneQuestion(client, name);
    if (user === undefined) return skip("the user of this MySQL may not create another one");
    await client.query(`grant all on ${name}.* to '${user}'@'%'`);
    const theirs = new URL(url);
    [theirs.username, theirs.password] = [user, user];
    await expect(openMysql(theirs.href, { migrate: false })).rejects.toThrow("max_queries_per_hour");
    const isGone = async () => {
      const [rows] = await client.query("select id from information_schema.processlist where user = ?", [
        user,
      ]);
      return (rows as unknown[]).length === 0;
    };
    await vi.waitUntil(isGone, { timeout: 5_000, interval: 20 });
  });
});

/** A host name that is not found at the next lookup. */
function nameOf(url: string) {
  const named = new URL(url);
  const { hostname } = named;
  named.hostname = "db.dbq.test";
  const { lookup } = dns;
  let failures = 0;
  const found = ((name: string, options: dns.LookupOptions, callback: (error: Error | null) => void) => {
    if (failures === 0) return lookup(name === named.hostname ? hostname : name, options, callback);
    failures -= 1;
    const details = { code: "EAI_AGAIN", errno: -3001, syscall: "getaddrinfo", hostname: name };
    callback(Object.assign(new Error(`getaddrinfo EAI_AGAIN ${name}`), details));
  }) as typeof lookup;
  const spy = vi.spyOn(dns, "lookup").mockImplementation(found);
  onTestFinished(() => spy.mockRestore());
  return { url: named.href, fail: () => (failures = 1), hasFailed: () => failures === 0 };
}

describe.each([
  { name: "MySQL", server: mysql, create: newDatabase, open: openMysql },
  { name: "Postgres", server: postgres, create: newSchema, open: openPostgres },
])("a host name of $name", ({ server, create, open }) => {
  it.skipIf(isMissing(server))("is looked up again when it could not be resolved for a moment", async () => {
    const { url, drop } = await create();
    onTestFinished(drop);
    const name = nameOf(url);
    const store = await open(name.url, { migrate: true });
    onTestFinished(() => store.close());
    name.fail();
    // One of the two needs another connection.
    expect(await Promise.all([store.workers(), store.workers()])).toEqual([[], []]);
    expect(name.hasFailed()).toBe(true);
  });
});

describe("a Postgres server without TLS", () => {
  it("is named in the error, as for every error that pg raises itself", async () => {
    const server = createServer((socket) => socket.on("data", () => socket.end("N")));
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const opening = openPostgres(`postgres://me:secret@127.0.0.1:${port}/app?sslmode=require`, {
      migrate: false,
    });
    const error = await opening.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DatabaseError);
    expect(String(error)).toMatch(`127.0.0.1:${port}: The server does not support SSL connections`);
  });
});
