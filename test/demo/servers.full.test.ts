/** The demo on a server: three worker processes, one of which is killed, and no task is lost. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { readCommand, UsageError } from "../../demo/command.ts";
import { workFolder } from "../../demo/plan.ts";
import { openQueue } from "../../src/index.ts";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { temporaryFolder } from "../support/queue.ts";
import { isMissing, type Server } from "../support/server.ts";
import { writeMany } from "./documents.ts";
import { runDemo } from "./run.ts";

// Milliseconds. A shared server may refuse connections for a while.
vi.setConfig({ testTimeout: 120_000 });

interface Home {
  url: string;
  drop(): Promise<void>;
}

const servers: [string, () => Promise<Server>, () => Promise<Home>][] = [
  ["Postgres", postgresServer, newSchema],
  ["MySQL or MariaDB", mysqlServer, newDatabase],
];

for (const [name, server, newHome] of servers) {
  describe.skipIf(isMissing(await server()))(`on ${name}`, () => {
    test("other workers run the tasks of a killed worker, and the database has all tasks", async () => {
      const { url, drop } = await newHome();
      onTestFinished(drop);
      const [folder, site] = [temporaryFolder(), join(temporaryFolder(), "site")];
      writeMany(folder, 30);
      const { code, stdout, stderr } = await runDemo(folder, "--out", site, "--db", url, "--json");
      expect(code, stderr).toBe(0);
      const summary = JSON.parse(stdout);
      expect(summary).toMatchObject({ tasks: 31, completed: 31, failed: 0, lost: 0, killedWorkers: 1 });
      // The bound only catches a rescue that never happened.
      expect(summary.recoveryMs).toBeGreaterThanOrEqual(0);
      expect(summary.recoveryMs).toBeLessThan(20_000);

      await using queue = await openQueue(url, { migrate: false });
      expect(await queue.countTasks()).toMatchObject({ completed: 31, pending: 0, running: 0 });
      expect(await queue.listWorkers()).toEqual([]);
    });
  });
}

describe.skipIf(isMissing(await mysqlServer()))("a password", () => {
  test("is in no output and no file of the demo", async () => {
    const { name, url, client, drop } = await newDatabase();
    onTestFinished(drop);
    const password = "s3cret-Passw0rd";
    await client.query(
      `create user ${name}@'%' identified by '${password}'; grant all on ${name}.* to ${name}@'%'`,
    );
    onTestFinished(async () => void (await client.query(`drop user ${name}@'%'`)));
    const theirs = new URL(url);
    [theirs.username, theirs.password] = [name, password];
    const [folder, site] = [temporaryFolder(), join(temporaryFolder(), "site")];
    writeMany(folder, 1);
    const { code, stdout, stderr } = await runDemo(folder, "--out", site, "--db", theirs.href);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(new RegExp(`^database +mysql://${name}:\\*\\*\\*@`, "m"));
    const plan = readFileSync(join(workFolder(site), "plan.json"), "utf8");
    expect(stdout + stderr + plan).not.toContain(password);
  });
});

test.each(["app.db", "sqlite:app.db", "redis://127.0.0.1", "postgres:/u:secret@h/db"])(
  "--db %s is wrong usage, and the error does not show it",
  (db) => {
    expect(() => readCommand(["--db", db])).toThrow(UsageError);
    expect(() => readCommand(["--db", db])).not.toThrow(/secret/);
  },
);

test("a server that does not answer is wrong usage, and the error shows no password", async () => {
  const folder = temporaryFolder();
  writeMany(folder, 1);
  const db = "postgres://ada:s3cret@127.0.0.1:1/app";
  const { code, stdout, stderr } = await runDemo(folder, "--db", db, "--json");
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain("demo: --db: 127.0.0.1:1: ");
  expect(stderr).not.toMatch(/s3cret|^ {4}at /m);
});
