/** What the figures depend on besides the code: the machine and the versions. */
import { closeSync, fsyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { arch, cpus, loadavg, platform, release, tmpdir, totalmem } from "node:os";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import type { Database as Measured } from "./benchmark.ts";
import { type RedisFacts, redisFacts } from "./peers/bullmq.ts";
import { factsOf, type ServersFacts } from "./server/facts.ts";
import { median } from "./verdict.ts";

export interface Machine {
  node: string;
  os: string;
  cpu: string;
  cores: number;
  memoryGiB: number;
  /** The load average of the minute before the run. */
  load: number;
  /** The databases to be measured on. */
  on: readonly Measured[];
  /**
   * Median microseconds for a write of 4 KiB with its fsync in the databases' folder: what `synchronous: "full"` waits
   * for.
   */
  fsyncMicroseconds: number;
  dbq: string;
  betterSqlite3: string;
  sqlite: string;
  plainjob: string;
  bullmq: string;
  ioredis: string;
  /** Undefined without a Redis. */
  redis: RedisFacts | undefined;
  pg: string;
  mysql2: string;
  graphileWorker: string;
  pgBoss: string;
  openWorkflow: string;
  dbos: string;
  /** Undefined when no server is measured. */
  servers: ServersFacts | undefined;
}

export async function describeMachine(on: readonly Measured[]): Promise<Machine> {
  const [cpu] = cpus();
  return {
    node: process.version,
    os: `${platform()} ${release().replace(/-.*/, "")} ${arch()}`,
    cpu: cpu?.model.trim() ?? "unknown",
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    load: Number((loadavg()[0] ?? 0).toFixed(2)),
    on,
    fsyncMicroseconds: measureFsync(),
    dbq: versionOf("dbq-ts"),
    betterSqlite3: versionOf("better-sqlite3"),
    sqlite: sqliteVersion(),
    plainjob: versionOf("plainjob"),
    bullmq: versionOf("bullmq"),
    ioredis: versionOf("ioredis"),
    redis: await redisFacts(),
    pg: versionOf("pg"),
    mysql2: versionOf("mysql2"),
    graphileWorker: versionOf("graphile-worker"),
    pgBoss: versionOf("pg-boss"),
    openWorkflow: versionOf("openworkflow"),
    dbos: versionOf("@dbos-inc/dbos-sdk"),
    servers: await factsOf(on.filter((database) => database !== "sqlite")),
  };
}

/** From the manifest beside its main file, since not every package exports its manifest. */
function versionOf(name: string): string {
  let folder = dirname(createRequire(import.meta.url).resolve(name));
  for (;;) {
    try {
      const manifest: { name?: string; version?: string } = JSON.parse(
        readFileSync(join(folder, "package.json"), "utf8"),
      );
      if (manifest.name === name && manifest.version !== undefined) return manifest.version;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    if (folder === dirname(folder)) throw new Error(`no manifest of ${name}`);
    folder = dirname(folder);
  }
}

function sqliteVersion(): string {
  const db = new Database(":memory:");
  try {
    return db.prepare<[], string>("select sqlite_version()").pluck().get() ?? "unknown";
  } finally {
    db.close();
  }
}

function measureFsync(): number {
  const folder = mkdtempSync(join(tmpdir(), "dbq-bench-"));
  const file = openSync(join(folder, "fsync"), "w");
  try {
    const block = Buffer.alloc(4_096, 1);
    const took = Array.from({ length: 101 }, (_, i) => {
      const start = performance.now();
      writeSync(file, block, 0, block.length, i * block.length);
      fsyncSync(file);
      return (performance.now() - start) * 1_000;
    });
    return Math.round(median(took) ?? 0);
  } finally {
    closeSync(file);
    rmSync(folder, { recursive: true, force: true });
  }
}
