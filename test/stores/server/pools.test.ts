/** Where dbq's own connections go when an app brings a pool: to where that leads, by its settings or by the environment. */
import { Socket } from "node:net";
import { createPool } from "mysql2/promise";
import { Client, Pool } from "pg";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { configOf, settingsOf as settingsOfMysql } from "../../../src/stores/mysql/connection.ts";
import { configOf as postgresConfigOf, settingsOf } from "../../../src/stores/postgres/connection.ts";

afterEach(() => vi.unstubAllEnvs());

const theirs = { user: "me", password: "secret", database: "app", host: "db.example", port: 6000 };

describe("a pool of pg", () => {
  it("leads where its settings say", () => {
    const { config, hosts } = settingsOf(new Pool({ ...theirs, ssl: true, options: "-c a=b" }), "own") ?? {};
    expect(hosts).toEqual([{ host: "db.example", port: 6000 }]);
    expect(config).toMatchObject({ user: "me", password: "secret", database: "app", ssl: true });
    expect(config?.options).toMatch(/^-c a=b -c plan_cache_mode/);
  });

  it("leads where its connection string says, and asks of the server what pg does", () => {
    const connectionString = "postgres://me:secret@db.example:6000/app?sslmode=verify-full";
    for (const client of [new Pool({ connectionString }), new Client({ connectionString })]) {
      const { config, hosts } = settingsOf(client, "own") ?? {};
      expect(hosts).toEqual([{ host: "db.example", port: 6000 }]);
      expect(config).toMatchObject({ user: "me", password: "secret", database: "app", ssl: {} });
      expect(config?.ssl).not.toHaveProperty("rejectUnauthorized", false);
    }
  });

  it("leads where the environment says, in what it leaves open", () => {
    vi.stubEnv("PGHOST", "db.example");
    vi.stubEnv("PGPORT", "6000");
    vi.stubEnv("PGUSER", "me");
    vi.stubEnv("PGPASSWORD", "secret");
    vi.stubEnv("PGDATABASE", "app");
    vi.stubEnv("PGSSLMODE", "no-verify");
    for (const pool of [new Pool(), new Pool({ connectionString: "postgres:///" })]) {
      const { config, hosts } = settingsOf(pool, "own") ?? {};
      expect(hosts).toEqual([{ host: "db.example", port: 6000 }]);
      expect(config).toMatchObject({ user: "me", password: "secret", database: "app" });
      expect(config?.ssl).toEqual({ rejectUnauthorized: false });
    }
  });

  it("may ask for its password each time, and so do the connections of dbq", () => {
    const password = () => "secret";
    expect(settingsOf(new Pool({ ...theirs, password }), "own")?.config).toMatchObject({ password });
  });

  it("may say that there is no TLS in any way", () => {
    const ssl = null as unknown as false;
    expect(settingsOf(new Pool({ ...theirs, ssl }), "own")?.config.ssl).toBe(false);
  });

  it("is asked through when only itself knows where it leads", () => {
    const stream = () => new Socket();
    expect(settingsOf(new Pool({ ...theirs, stream }), "own")).toBeUndefined();
    expect(settingsOf({ query: () => undefined }, "own")).toBeUndefined();
  });

  it("says nothing to a pooler in between but what the app says", () => {
    const { config } = settingsOf(new Pool({ ...theirs, options: "-c a=b" }), "pooled") ?? {};
    expect(config?.options).toBe("-c a=b");
  });

  it("has a key of its own, which is given on however often it was used", () => {
    const ssl = { ca: "authority", key: "secret", cert: "mine" };
    // It hides the key of the very object that it is given.
    const pool = new Pool({ ...theirs, ssl: { ...ssl } });
    for (let i = 0; i < 2; i += 1) expect(structuredClone(settingsOf(pool, "own")?.config)?.ssl).toEqual(ssl);
  });
});

describe("a URL of Postgres", () => {
  it.each([
    ["disable", false],
    ["require", { rejectUnauthorized: false }],
    ["verify-ca", { rejectUnauthorized: true }],
    ["verify-full", { rejectUnauthorized: true }],
  ])("with sslmode=%s asks of the server: %o", (sslmode, ssl) => {
    const url = { user: "me", password: "", database: "app", parameters: { sslmode } };
    expect(postgresConfigOf(url, "own").ssl).toEqual(ssl);
  });
});

describe("on MySQL", () => {
  it("a pool leads where its settings say", async () => {
    const pool = createPool(theirs);
    onTestFinished(() => pool.end());
    const { config, hosts } = settingsOfMysql(pool) ?? {};
    expect(hosts).toEqual([{ host: "db.example", port: 6000 }]);
    expect(config).toMatchObject({ user: "me", password: "secret", database: "app" });
  });

  it.each([
    { stream: () => new Socket() },
    { passwordSha1: Buffer.from("secret") },
    { authPlugins: { mine: () => () => "secret" } },
    { authSwitchHandler: () => undefined },
  ])("a pool that connects or logs in by itself is asked through: %o", (itself) => {
    const pool = createPool({ ...theirs, ...(itself as object) });
    onTestFinished(() => pool.end());
    expect(settingsOfMysql(pool)).toBeUndefined();
  });

  it.each([
    ["verify-full", true],
    ["VERIFY_IDENTITY", true],
    ["require", false],
  ])("sslmode=%s asks for a known authority and for the host's own name: %s", (sslmode, verify) => {
    const { ssl } = configOf({ user: "me", password: "", database: "app", parameters: { sslmode } });
    expect(ssl).toEqual({ rejectUnauthorized: verify, verifyIdentity: verify });
  });
});
