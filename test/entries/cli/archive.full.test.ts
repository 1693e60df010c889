/** `dbq export` and `dbq import`. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asImported } from "../../features/archive/archived.ts";
import { makeQueue } from "../../features/transfer/moved-rows.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { cleanEnv, program } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

/** A folder with a database of 50 tasks, of which 30 have finished. */
async function folderWithTasks(): Promise<string> {
  const folder = temporaryFolder();
  await makeQueue(join(folder, "dbq.db"), 50);
  return folder;
}

const read = (folder: string, file: string) => readFileSync(join(folder, file), "utf8");

test("export writes lines to stdout and its summary to stderr, or all to a file; import reads either", async () => {
  const folder = await folderWithTasks();
  const { code, out, err } = await dbq(folder, ["export"]);
  expect([code, err]).toEqual([0, "exported 30 tasks\n"]);
  const toFile = await dbq(folder, ["export", "--out", "all.jsonl"]);
  expect([toFile.code, toFile.out, toFile.err]).toEqual([0, "exported 30 tasks to all.jsonl\n", ""]);
  expect(read(folder, "all.jsonl")).toBe(out);
  const imported = await dbq(folder, ["import", "all.jsonl", "--db", "new.db"]);
  expect([imported.code, imported.out]).toEqual([0, "imported 30 tasks\n"]);
  const again = await dbqJson(folder, ["import", "all.jsonl", "--db", "new.db"]);
  expect(again).toEqual({ imported: 0, skipped: 30 });
  const [node, ...args] = program;
  const piped = spawnSync(node, [...args, "import", "-", "--db", "piped.db"], {
    cwd: folder,
    env: cleanEnv({}),
    input: out,
    encoding: "utf8",
  });
  expect([piped.status, piped.stdout]).toEqual([0, "imported 30 tasks\n"]);
  const copy = await dbq(folder, ["export", "--db", "piped.db"]);
  expect(copy.out.trim().split("\n")).toEqual(out.trim().split("\n").map(asImported));
});

test("export chooses tasks, and reports to programs", async () => {
  const folder = await folderWithTasks();
  const { out, err } = await dbq(folder, ["export", "--status", "failed", "--json"]);
  const lines = out.trim().split("\n");
  expect(lines.map((line) => JSON.parse(line).status)).toEqual(lines.map(() => "failed"));
  expect(JSON.parse(err)).toEqual({ exported: lines.length });
  const failed = ["export", "--status", "failed", "--out", "failed.jsonl"];
  expect(await dbqJson(folder, failed)).toEqual({ exported: lines.length, out: "failed.jsonl" });
  const none = await dbq(folder, ["export", "--func", "none"]);
  expect([none.code, none.out, none.err]).toEqual([0, "", "exported 0 tasks\n"]);
});

test("export replaces a file only with --force, and leaves no unfinished one", async () => {
  const folder = await folderWithTasks();
  writeFileSync(join(folder, "all.jsonl"), "mine");
  const refused = await dbq(folder, ["export", "--out", "all.jsonl"]);
  expect([refused.code, refused.err]).toEqual([
    1,
    "error: all.jsonl exists: give another --out, or --force to replace it\n",
  ]);
  expect(read(folder, "all.jsonl")).toBe("mine");
  expect((await dbq(folder, ["export", "--out", "all.jsonl", "--force"])).code).toBe(0);
  expect(read(folder, "all.jsonl").trim().split("\n")).toHaveLength(30);
  const missing = await dbq(folder, ["export", "--out", "none/all.jsonl"]);
  expect(missing.code).toBe(1);
  expect(missing.err).toContain("error: none/all.jsonl: ENOENT");
  expect(readdirSync(folder).filter((name) => name.endsWith(".part"))).toEqual([]);
});

test("an export that fails leaves the file as it was", async () => {
  const folder = await folderWithTasks();
  const { default: Database } = await import("better-sqlite3");
  const client = new Database(join(folder, "dbq.db"));
  client.prepare("update dbq_tasks set progress_note = x'00' where status = 'failed'").run();
  client.close();
  const { code, err } = await dbq(folder, ["export", "--out", "all.jsonl"]);
  expect(code).toBe(1);
  expect(err).toMatch(/^error: task -?\d+: the column progress_note has a value that cannot be exported\n$/);
  expect(readdirSync(folder).filter((name) => name.includes("jsonl"))).toEqual([]);
});

test("wrong usage of both", async () => {
  const folder = await folderWithTasks();
  for (const [args, message] of [
    [
      ["export", "--status", "pending"],
      "--status: an archive holds finished tasks (completed, failed, cancelled)",
    ],
    [["export", "--force"], "--force belongs to --out"],
    [["export", "--out", ""], '--out: expected a file, got ""'],
    [["import"], "missing required argument 'file' (see dbq import --help)"],
  ] as const) {
    const { code, err } = await dbq(folder, args);
    expect(code).toBe(2);
    expect(err).toContain(message);
  }
});

test("import names a file that cannot be read, and a wrong line, and makes no database for nothing", async () => {
  const folder = await folderWithTasks();
  const missing = await dbq(folder, ["import", "none.jsonl", "--db", "new.db"]);
  expect([missing.code, readdirSync(folder).includes("new.db")]).toEqual([1, false]);
  expect(missing.err).toContain("error: none.jsonl cannot be read: ENOENT");
  writeFileSync(join(folder, "wrong.jsonl"), '\n{"id":1}\n');
  const wrong = await dbq(folder, ["import", "wrong.jsonl", "--json"]);
  expect(wrong.code).toBe(1);
  expect(JSON.parse(wrong.err).error).toMatchObject({
    code: "DBQ_INVALID_ARCHIVE",
    line: 2,
    message: "line 2: func is missing",
  });
  writeFileSync(join(folder, "bytes.jsonl"), Buffer.from([0x7b, 0xff]));
  const bytes = await dbq(folder, ["import", "bytes.jsonl"]);
  expect([bytes.code, bytes.err.split(":")[1]]).toEqual([1, " bytes.jsonl cannot be read"]);
});
