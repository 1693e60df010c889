/**
 * Invariant: when the write-ahead log is deleted or replaced under a queue, no write of it is acknowledged any more: other
 * processes do not see it, and it is lost with this process.
 */
import { execFile, spawnSync } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import {
  existsSync,
  linkSync,
  promises,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { promisify } from "node:util";
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { currentTask, LogMovedError, openQueue, type Queue, task } from "../../../src/index.ts";
import { holdersOf } from "../../../src/stores/sqlite/file-locks.ts";
import { startedWorker, temporaryFolder, temporaryQueue, uniqueName } from "../../support/queue.ts";

const quick = task(uniqueName("quick"), async (..._texts: string[]) => "ran");

const file = () => `${temporaryFolder()}/app.db`;

/** Older programs than SQLite 3.51 delete the log when no other process has a lock on the file. */
const cli = spawnSync("sqlite3", ["--version"], { encoding: "utf8" }).stdout ?? "";
const [minor = 99] = /^3\.(\d+)/.exec(cli)?.slice(1).map(Number) ?? [];
const hasOldProgram = process.platform === "linux" && minor < 51;

/** Another program opens the file, reads from it and closes it. */
const select = (path: string): Promise<string> =>
  promisify(execFile)("sqlite3", [path, "select id from dbq_tasks"]).then(({ stdout }) => stdout);

/** The messages of a channel during this test. */
function messagesOf(channel: "dbq:error" | "dbq:warning"): { error?: unknown; message?: string }[] {
  const messages: object[] = [];
  const listener = (message: unknown) => void messages.push(message as object);
  subscribe(channel, listener);
  onTestFinished(() => void unsubscribe(channel, listener));
  return messages;
}

const deleteLog = (path: string): void => rmSync(`${path}-wal`);

const deleteIndex = (path: string): void => rmSync(`${path}-shm`);

const ways: [string, (path: string) => void | Promise<void>][] = [
  ["was deleted by hand", deleteLog],
  ["has lost its index, which was deleted by hand", deleteIndex],
  [
    "was replaced",
    (path) => {
      writeFileSync(`${path}.new`, "");
      renameSync(`${path}.new`, `${path}-wal`);
    },
  ],
];
if (hasOldProgram)
  ways.push([
    "was deleted by another program, after this process had read the file",
    async (path) => {
      await promises.readFile(path);
      await select(path);
    },
  ]);

const appOn = (path: string) => {
  const client = new Database(path);
  onTestFinished(() => void client.close());
  return drizzle(client);
};

/** What writes over a queue, and over an app's own connection. */
const writes: [string, (queue: Queue, app: ReturnType<typeof appOn>) => Promise<unknown>][] = [
  ["enqueueTask", (queue) => queue.enqueueTask(quick)],
  ["enqueueTasks", (queue) => queue.enqueueTasks([[quick], [quick]])],
  ["several calls of one tick", (queue) => Promise.any([queue.enqueueTask(quick), queue.enqueueTask(quick)])],
  ["cancelTask", (queue) => queue.cancelTask(1)],
  ["purgeTasks", (queue) => queue.purgeTasks({ func: quick.taskName })],
  ["schedule", (queue) => queue.schedule(uniqueName("nightly"), { every: "1d" }, quick)],
  ["pause", (queue) => queue.pause({ queueName: "default" })],
  ["queue.transaction", (queue) => queue.transaction((_, inside) => inside.enqueueTask(quick))],
  ["queue.within an app's database", async (queue, app) => queue.within(app).enqueueTask(quick)],
  [
    "queue.within an app's transaction",
    async (queue, app) => app.transaction((tx) => queue.within(tx).enqueueTask(quick)),
  ],
];

describe.each(writes)("%s", (_, write) => {
  test("is refused at once when the log was deleted, and is in no file", async () => {
    const path = file();
    const queue = await temporaryQueue({ synchronous: "normal" }, path);
    const app = appOn(path);
    await queue.enqueueTask(quick);
    await app.transaction((tx) => queue.within(tx).enqueueTask(quick));
    deleteLog(path);
    const refused = await write(queue, app).catch((error: unknown) => error);
    const [error = refused] = refused instanceof AggregateError ? refused.errors : [];
    expect(error).toBeInstanceOf(LogMovedError);
    expect(error).toMatchObject({ code: "DBQ_DATABASE_MOVED", message: expect.stringContaining(path) });
    await expect(queue.getTask(1)).rejects.toBe(error);
  });
});

describe.each(ways)("a log that %s", (_, lose) => {
  test("is noticed, what it held is saved, and the queue is opened anew once it was closed", async () => {
    const path = file();
    const queue = await temporaryQueue(undefined, path);
    const id = await queue.enqueueTask(quick);
    await lose(path);
    // Another log that comes within a quarter of a millisecond is noticed by the next commit but one.
    const error = await vi.waitFor(async () => {
      const thrown = await queue.enqueueTask(quick).catch((refused: unknown) => refused);
      expect(thrown).toBeInstanceOf(LogMovedError);
      return thrown;
    });
    await expect(queue.enqueueTask(quick)).rejects.toBe(error);
    // A second connection of this process would mix up the old log and the new one.
    await expect(openQueue(path)).rejects.toBe(error);

    const saved = (error as LogMovedError).saved ?? "";
    await vi.waitFor(() => expect(existsSync(saved)).toBe(true));
    const copy = new Database(saved, { readonly: true });
    expect(copy.prepare("select id from dbq_tasks").pluck().all()).toContain(id);
    expect(copy.pragma("integrity_check", { simple: true })).toBe("ok");
    copy.close();

    await queue.close();
    const anew = await temporaryQueue(undefined, path);
    expect(await anew.getTask(id)).toMatchObject({ status: "pending" });
    expect((await anew.diagnose()).filter(({ name }) => name === "saved log")).toHaveLength(1);
  });
});

test("a hard link to the file, whose log would be another one, is warned of and named by diagnose; a symbolic link is not", async () => {
  const path = file();
  const warnings = messagesOf("dbq:warning");
  const queue = await temporaryQueue(undefined, path);
  symlinkSync(path, `${path}.symbolic`);
  const linkedTo = async () => (await queue.diagnose()).find(({ name }) => name === "hard links");
  expect(await linkedTo()).toBeUndefined();
  linkSync(path, `${path}.hard`);
  await vi.waitFor(async () => {
    await queue.enqueueTask(quick);
    expect(warnings.map(({ message }) => message)).toEqual([expect.stringMatching(/has 2 names/)]);
  });
  expect(await linkedTo()).toMatchObject({
    value: 2,
    warning: expect.stringMatching(/writes over what the other commits/),
  });
  await queue.close();
  await temporaryQueue(undefined, path);
  expect(warnings).toHaveLength(2);
});

describe("a log that another program has emptied", () => {
  test("takes no more acknowledged writes, and the file can be opened anew", async () => {
    const path = file();
    const queue = await temporaryQueue(undefined, path);
    await queue.enqueueTask(quick);
    truncateSync(`${path}-wal`);
    const error = await vi.waitFor(async () => {
      const thrown = await queue.enqueueTask(quick).catch((refused: unknown) => refused);
      expect(thrown).toBeInstanceOf(LogMovedError);
      return thrown;
    });
    expect(error).toMatchObject({
      saved: undefined,
      message: expect.stringMatching(/was emptied by another/),
    });
    await expect(queue.getTask(1)).rejects.toBe(error);
    await queue.close();
    const anew = await temporaryQueue(undefined, path);
    const id = await anew.enqueueTask(quick);
    expect(await anew.getTask(id)).toMatchObject({ status: "pending" });
  });

  test("is no log that SQLite has emptied after all of it had reached the file", async () => {
    const path = file();
    const queue = await temporaryQueue(undefined, path);
    const other = new Database(path);
    onTestFinished(() => void other.close());
    for (let i = 0; i < 5; i += 1) {
      await queue.enqueueTask(quick);
      expect(other.pragma("wal_checkpoint(truncate)")).toEqual([{ busy: 0, log: 0, checkpointed: 0 }]);
      await new Promise((resolve) => setTimeout(resolve, 10));
      await queue.enqueueTask(quick);
    }
    expect(await queue.countTasks()).toMatchObject({ pending: 10 });
  });

  test("is no log that was blank when the queue was opened", async () => {
    const path = file();
    await (await openQueue(path)).close();
    writeFileSync(`${path}-wal`, Buffer.alloc(10_000));
    const queue = await temporaryQueue(undefined, path);
    await queue.cancelTask(1).catch(() => undefined);
    await queue.enqueueTask(quick);
    expect(await queue.countTasks()).toMatchObject({ pending: 1 });
  });
});

test.runIf(cli !== "")(
  "what another program commits after the index of the log was deleted is not written over",
  async () => {
    const path = file();
    const other = (statement: string) =>
      spawnSync("sqlite3", [path, statement], { encoding: "utf8" }).stdout.trim();
    const queue = await temporaryQueue(undefined, path);
    await queue.enqueueTask(quick);
    other("create table own (id)");
    deleteIndex(path);
    // It makes another index, in which the commits of the queue are not.
    other("insert into own values (7)");
    await expect(queue.enqueueTask(quick)).rejects.toBeInstanceOf(LogMovedError);
    expect(other("select id from own; select id from dbq_tasks")).toBe("7\n1");
  },
);

test("a worker reports a lost log once, does not settle into it, and claims nothing more", async () => {
  const path = file();
  const queue = await temporaryQueue(undefined, path);
  const runs: number[] = [];
  const loses = task(uniqueName("loses"), async () => {
    runs.push(currentTask().id);
    if (runs.length === 1) deleteLog(path);
  });
  const [first] = await queue.enqueueTasks([[loses], [loses]]);
  const worker = await startedWorker(queue, { concurrency: 1 });
  const errors: unknown[] = [];
  const completed: unknown[] = [];
  worker.on("completed", (ended) => completed.push(ended));
  const reported = new Promise<void>((resolve) => {
    worker.on("error", (error) => {
      errors.push(error);
      resolve();
    });
  });
  await reported;
  await worker.stop({ grace: 0 });
  expect(errors).toEqual([expect.any(LogMovedError)]);
  expect(completed).toEqual([]);
  expect(runs).toEqual([first]);
});

test("a transaction that loses the log before its commit is rejected, or reported where the app commits", async () => {
  const path = file();
  const queue = await temporaryQueue(undefined, path);
  const app = appOn(path);
  const errors = messagesOf("dbq:error");
  app.transaction((tx) => {
    queue.within(tx).enqueueTask(quick);
    deleteLog(path);
  });
  await vi.waitFor(() => expect(errors.map(({ error }) => error)).toEqual([expect.any(LogMovedError)]));

  const other = file();
  const second = await temporaryQueue(undefined, other);
  const committed = second.transaction((_, inside) => {
    inside.enqueueTask(quick);
    deleteLog(other);
  });
  await expect(committed).rejects.toBeInstanceOf(LogMovedError);
});

test("a log that a checkpoint begins anew or cuts is the same log", async () => {
  const path = file();
  const queue = await temporaryQueue({ synchronous: "normal" }, path);
  const app = appOn(path);
  for (const mode of ["restart", "truncate"]) {
    await queue.enqueueTask(quick);
    app.$client.pragma(`wal_checkpoint(${mode})`);
  }
  expect(await queue.enqueueTask(quick)).toBe(3);
});

test.runIf(process.platform === "linux")(
  "a queue whose process has dropped SQLite's locks goes on and warns once, and the doctor names the process",
  async () => {
    const path = file();
    const queue = await temporaryQueue(undefined, path);
    const messages = messagesOf("dbq:warning");
    const warnings = () => messages.filter(({ message }) => message?.startsWith(path));
    const facts = async () => (await internalsOf(queue).store.diagnose()).filter((fact) => fact.warning);
    expect(await facts()).toEqual([]);
    await promises.readFile(path);
    await vi.waitFor(async () => {
      await queue.enqueueTask(quick);
      expect(warnings()).toHaveLength(1);
    });
    await queue.enqueueTask(quick);
    expect(warnings()).toEqual([
      expect.objectContaining({ message: expect.stringContaining("vacuum into") }),
    ]);
    const own = String(process.pid);
    expect(await facts()).toMatchObject([{ name: "lost locks", value: own }]);
    deleteLog(path);
    // Another process asks: this one refuses to look.
    expect(holdersOf(path, undefined)).toEqual({ deleted: [own], unlocked: [] });
  },
);

test.runIf(hasOldProgram)(
  "no acknowledged task is missing that came while another program deleted the log",
  async () => {
    const path = file();
    const queue = await temporaryQueue({ synchronous: "normal" }, path);
    messagesOf("dbq:warning");
    const acknowledged: number[] = [];
    for (let i = 0; i < 200; i += 1) acknowledged.push(await queue.enqueueTask(quick, "x".repeat(1_000)));
    await promises.readFile(path);
    const other = select(path);
    const busy = async () => {
      for (;;) acknowledged.push(await queue.enqueueTask(quick, "x"));
    };
    await expect(busy()).rejects.toBeInstanceOf(LogMovedError);
    await other;
    const found = new Set((await select(path)).trim().split("\n").map(Number));
    expect(acknowledged.filter((id) => !found.has(id))).toEqual([]);
  },
);
