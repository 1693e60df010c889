/**
 * Where dbq's own connections lead when an app brings a pool: to the same database, by the pool's settings or the
 * environment.
 */
import { Socket } from "node:net";
import { createPool } from "mysql2/promise";
import { Client, Pool } from "pg";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { configOf, settingsOf as settingsOfMysql } from "../../../src/stores/mysql/connection.ts";
import { configOf as postgresConfigOf, settingsOf } from "../../../src/stores/postgres/connection.ts";

afterEach(() => vi.unstubAllEnvs());

const theirs = { user: "me", password: "secret", database: "app", host: "db.example", port: 6000 };

describe("a pool of pg", () => {
  it("leads to the host in its settings", () => {
    const { config, hosts } = settingsOf(new Pool({ ...theirs, ssl: true, options: "-c a=b" }), "own") ?? {};
    expect(hosts).toEqual([{ host: "db.example", port: 6000 }]);
    expect(config).toMatchObject({ user: "me", password: "secret", database: "app", ssl: true });
    expect(config?.options).toMatch(/^-c a=b -c plan_cache_mode/);
  });

  it("leads to the host in its connection string, with the server settings that pg sends", () => {
    const connectionString = "postgres://me:secret@db.example:6000/app?sslmode=verify-full";
    for (const client of [new Pool({ connectionString }), new Client({ connectionString })]) {
      const { config, hosts } = settingsOf(client, "own") ?? {};
      expect(hosts).toEqual([{ host: "db.example", port: 6000 }]);
      expect(config).toMatchObject({ user: "me", password: "secret", database: "app", ssl: {} });
      expect(config?.ssl).not.toHaveProperty("rejectUnauthorized", false);
    }
  });

  it("takes from the environment what its settings leave open", () => {
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

  it("may have a password function, which dbq's connections call too", () => {
    const password = () => "secret";
    expect(settingsOf(new Pool({ ...theirs, password }), "own")?.config).toMatchObject({ password });
  });

  it("may switch TLS off in any of pg's ways", () => {
    const ssl = null as unknown as false;
    expect(settingsOf(new Pool({ ...theirs, ssl }), "own")?.config.ssl).toBe(false);
  });

  it("is used itself when only the pool knows where it leads", () => {
    const stream = () => new Socket();
    expect(settingsOf(new Pool({ ...theirs, stream }), "own")).toBeUndefined();
    expect(settingsOf({ query: () => undefined }, "own")).toBeUndefined();
  });

  it("sends nothing through a pooler that the app would not send", () => {
    const { config } = settingsOf(new Pool({ ...theirs, options: "-c a=b" }), "pooled") ?? {};
    expect(config?.options).toBe("-c a=b");
  });

  it("keeps the TLS key of its settings, however often they are read", () => {
    const ssl = { ca: "authority", key: "secret", cert: "mine" };
    // It hides the key in the object that it is given.
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
  ])("sslmode=%s sets TLS to %o", (sslmode, ssl) => {
    const url = { user: "me", password: "", database: "app", parameters: { sslmode } };
    expect(postgresConfigOf(url, "own").ssl).toEqual(ssl);
  });
});

describe("on MySQL", () => {
  it("a pool leads to the host in its settings", async () => {
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
  ])("a pool with a connection or login function is used itself: %o", (itself) => {
    const pool = createPool({ ...theirs, ...(itself as object) });
    onTestFinished(() => pool.end());
    expect(settingsOfMysql(pool)).toBeUndefined();
  });

  it.each([
    ["verify-full", true],
    ["VERIFY_IDENTITY", true],
    ["require", false],
  ])("sslmode=%s checks the authority and the host's name: %s", (sslmode, verify) => {
    const { ssl } = configOf({ user: "me", password: "", database: "app", parameters: { sslmode } });
    expect(ssl).toEqual({ rejectUnauthorized: verify, verifyIdentity: verify });
  });
});
