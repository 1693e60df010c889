import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { drizzle as drizzleProxy } from "drizzle-orm/sqlite-proxy";
import { describe, expect, it, type TestContext } from "vitest";
import { openQueue, Queue } from "../../src/index.ts";
import { older } from "../../src/stores/sqlite/open.ts";
import { temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { runProcess } from "./processes.ts";
import { countRows, heldLock, nextTick, rawClient } from "./raw.ts";
import { echo } from "./tasks.ts";

/** Expects a DatabaseError whose message names the target. */
async function refused(target: string | object, message: RegExp | string): Promise<void> {
  const opening = openQueue(target);
  await expect(opening).rejects.toMatchObject({ name: "DatabaseError", code: "DBQ_DATABASE" });
  await expect(openQueue(target)).rejects.toThrow(message);
}

/** The user id of nobody, if this process can switch to it: root can write read-only files. */
const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

describe("a target", () => {
  it("is a path or a sqlite: URL, absolute or relative to the working directory", async () => {
    const folder = realpathSync(temporaryFolder());
    const before = process.cwd();
    process.chdir(folder);
    const targets = [
      ...["a.db", "./b.db", join(folder, "c.db"), "sqlite:d.db", `sqlite:${join(folder, "e.db")}`],
      ...[`sqlite://${join(folder, "f.db")}`, "g with spaces & ünicode %20.db"],
    ];
    const names = ["a.db", "b.db", "c.db", "d.db", "e.db", "f.db", "g with spaces & ünicode %20.db"];
    try {
      for (const [i, target] of targets.entries()) {
        const queue = await openQueue(target);
        await queue.enqueueTask(echo, i);
        await queue.close();
        expect(countRows(rawClient(join(folder, names[i] as string)))).toBe(1);
      }
    } finally {
      process.chdir(before);
    }
  });

  it("in memory is a new database each time, without a file", async () => {
    const before = existsSync(":memory:");
    const [one, two] = [await temporaryQueue({}, ":memory:"), await temporaryQueue({}, "sqlite::memory:")];
    await one.enqueueTask(echo, 1);
    expect(await two.listTasks()).toEqual([]);
    expect(existsSync(":memory:")).toBe(before);
  });

  it("may be a symbolic link to the file", async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "real"));
    const [real, link] = [join(folder, "real", "dbq.db"), join(folder, "link.db")];
    const first = await temporaryQueue({}, real);
    symlinkSync(real, link);
    const second = await temporaryQueue({}, link);
    expect(await second.getTask(await first.enqueueTask(echo, 1))).toMatchObject({ args: [1] });
  });

  it("of a wrong kind is a TypeError that names it", async () => {
    const wrong: [unknown, RegExp][] = [
      ["", /""/],
      ["sqlite:", /sqlite:/],
      ["mongodb://host/db", /mongodb/],
      [7, /7/],
      [null, /null/],
      [() => undefined, /function/],
      [{}, /object/],
      [new Database(":memory:"), /Drizzle/],
      [drizzleProxy((async () => ({ rows: [] })) as never), /better-sqlite3/],
    ];
    for (const [target, message] of wrong) {
      await expect(openQueue(target as string)).rejects.toThrow(TypeError);
      await expect(openQueue(target as string)).rejects.toThrow(message);
    }
  });
});

describe("openQueue refuses by name", () => {
  it("a file whose folder is missing", async () => {
    const path = join(temporaryFolder(), "missing", "dbq.db");
    await refused(path, /folder does not exist/);
    await refused(path, path);
  });

  it("a folder", async () => {
    const folder = temporaryFolder();
    await refused(folder, folder);
    await refused(folder, /folder/);
  });

  it("a file that is not a database, and does not change it", async () => {
    const path = join(temporaryFolder(), "letter.txt");
    const text = "Dear queue,\n".repeat(1_000);
    writeFileSync(path, text);
    await refused(path, /not a SQLite database/);
    expect(existsSync(`${path}-wal`)).toBe(false);
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  it("a damaged database", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const queue = await openQueue(path);
    await queue.enqueueTask(echo, 1);
    await queue.close();
    const bytes = readFileSync(path);
    // The header stays valid; the schema's tree in the first page does not.
    bytes.fill(0xff, 100, 4_000);
    writeFileSync(path, bytes);
    await refused(path, path);
  });

  it("an app's read-only connection", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    await (await openQueue(path)).close();
    await refused(drizzle({ client: rawClient(path, { readonly: true }) }), /read-only/);
  });

  describe("a file that this user may not write", () => {
    /** Opens the file as another user, with these permissions. */
    async function openedWith(
      rights: { file: number; folder: number },
      ctx: TestContext,
    ): Promise<[object, string]> {
      const folder = temporaryFolder();
      const path = join(folder, "dbq.db");
      const queue = await openQueue(path);
      await queue.enqueueTask(echo, 1);
      await queue.close();
      chmodSync(path, rights.file);
      chmodSync(folder, rights.folder);
      const skip = (error: Error) => ctx.skip(`another user's process cannot be run here: ${error.message}`);
      const told = await runProcess("open", [path], nobody).catch(skip);
      chmodSync(folder, 0o777);
      expect(countRows(rawClient(path))).toBe(1);
      return [JSON.parse(told).given, path];
    }

    it("because the file is read-only", async (ctx) => {
      const [told] = await openedWith({ file: 0o444, folder: 0o777 }, ctx);
      expect(told).toMatchObject({ code: "DBQ_DATABASE", message: expect.stringMatching(/read-only/) });
    });

    it("because its folder is", async (ctx) => {
      const [told, path] = await openedWith({ file: 0o666, folder: 0o555 }, ctx);
      expect(told).toMatchObject({ code: "DBQ_DATABASE", message: expect.stringContaining(path) });
    });

    it("because neither can be read", async (ctx) => {
      const [told, path] = await openedWith({ file: 0o600, folder: 0o700 }, ctx);
      expect(told).toMatchObject({ code: "DBQ_DATABASE", message: expect.stringContaining(path) });
    });

    it("but not if both are writable", async (ctx) => {
      expect((await openedWith({ file: 0o666, folder: 0o777 }, ctx))[0]).toEqual({ opened: true });
    });
  });

  it("a SQLite version that can lose commits", async () => {
    const client = rawClient(":memory:");
    client.function("sqlite_version", () => "3.51.2");
    await refused(drizzle({ client }), /3\.51\.2.*3\.51\.3/);
    expect(client.prepare("select count(*) from sqlite_master").pluck().get()).toBe(0);
  });
});

it("SQLite versions are compared by their numbers", () => {
  const before = ["3.51.2", "3.9.99", "2.99.99", "3.51", "3", "0.0.0"];
  const since = ["3.51.3", "3.51.10", "3.52.0", "3.100.0", "4.0.0", "10.0.0", "3.51.3.1"];
  for (const version of before) expect([version, older(version, "3.51.3")]).toEqual([version, true]);
  for (const version of since) expect([version, older(version, "3.51.3")]).toEqual([version, false]);
});

describe("a file that dbq opens", () => {
  const factsOf = async (queue: Awaited<ReturnType<typeof openQueue>>) =>
    Object.fromEntries((await queue.diagnose()).map(({ name, value }) => [name, value]));

  it("is in WAL mode with synchronous full, unless the option says otherwise", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    // A second connection has another default than the one that created the file.
    for (const queue of [await temporaryQueue({}, path), await temporaryQueue({}, path)])
      expect(await factsOf(queue)).toMatchObject({ "journal mode": "wal", synchronous: "full" });
    const faster = await temporaryQueue({ synchronous: "normal" }, path);
    expect(await factsOf(faster)).toMatchObject({ synchronous: "normal" });
    expect((await faster.diagnose()).find(({ name }) => name === "synchronous")?.warning).toMatch(/power/);
  });

  it.each([
    ["by its path", "immediate", (path: string) => path],
    ["by its path", "exclusive", (path: string) => path],
    ["by an app's database", "immediate", (path: string) => drizzle({ client: rawClient(path) })],
    ["by an app's database", "exclusive", (path: string) => drizzle({ client: rawClient(path) })],
  ] as const)(
    "%s, is waited for while somebody has an %s transaction, off the thread",
    async (_, kind, target) => {
      const path = join(temporaryFolder(), "dbq.db");
      const theirs = target(path);
      const release = heldLock(path, kind);
      const start = performance.now();
      const opening = openQueue(theirs).catch((error: unknown) => error);
      await nextTick();
      await nextTick();
      expect(performance.now() - start).toBeLessThan(2_500);
      release();
      const queue = await opening;
      if (!(queue instanceof Queue)) throw queue;
      expect(await queue.enqueueTask(echo, 1)).toBe(1);
      await queue.close();
    },
  );

  it("of an app keeps the settings of the app's connection", async () => {
    const client = rawClient(join(temporaryFolder(), "app.db"), { timeout: 1_234 });
    client.pragma("synchronous = off");
    const settings = () =>
      ["journal_mode", "synchronous", "busy_timeout"].map((name) => client.pragma(name, { simple: true }));
    const before = settings();
    const queue = await temporaryQueue({}, drizzle({ client }));
    await queue.enqueueTask(echo, 1);
    expect(settings()).toEqual(before);
    expect(before).toEqual(["delete", 0, 1_234]);
    expect(await factsOf(queue)).toMatchObject({ synchronous: "full", "journal mode": "delete" });
  });
});
