import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import Database from "better-sqlite3";
import { expect, onTestFinished, test, vi } from "vitest";
import { printable } from "../../../src/base/text/escapes.ts";
import { jsonList } from "../../../src/entries/cli/output.ts";
import { columnsOf, jsonText, shortened } from "../../../src/entries/cli/text.ts";
import { remoteTask, type Task } from "../../../src/index.ts";
import {
  type Ended,
  folderWithQueue,
  inPairs,
  isEvent,
  program,
  start,
  startDbq,
  startWorker,
  tasks,
} from "./dbq.ts";
import { dbq } from "./in-process.ts";

/** Clears the screen, sets the title, rings the bell, has the CSI of C1, reorders and hides text, breaks lines. */
const hostile =
  "\u001b[2J\u001b]0;title\u0007\u009b31m\u202egnp.exe\u2066\u200b\u2028\u2029\r\nok: 0\u007f\u{e0041}";
/** The characters that must not reach a terminal, without our own line ends. */
const unprintable = /[^\n\P{Cc}]|[\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

/** The first character of `hostile` as an escape. */
const escaped = /\\x1b\[|\\u001b\[/;

test("control and format characters are printed as escapes", () => {
  expect(printable("\u001b[31m\u009b\u202e\n\t\u{e0041}\ud800é日👍")).toBe(
    "\\x1b[31m\\x9b\\u202e\\n\\t\\u{e0041}\\ud800é日👍",
  );
  expect(printable(hostile)).not.toMatch(unprintable);
  const text = jsonText({ [hostile]: [hostile] });
  expect(text).not.toMatch(unprintable);
  expect(JSON.parse(text)).toEqual({ [hostile]: [hostile] });
  expect(jsonText(undefined)).toBe("null");
});

test("text is measured in terminal columns, and cut between characters", () => {
  expect([columnsOf("abc"), columnsOf("日本"), columnsOf("e\u0301"), columnsOf("👩‍👧")]).toEqual([
    3, 4, 1, 2,
  ]);
  expect(shortened("👍👍👍", 2)).toBe("👍…");
  expect(shortened("abc", 3)).toBe("abc");
});

/** A task whose texts are all hostile. Only another program can write it. */
async function hostileFolder() {
  const { folder, queue } = await folderWithQueue();
  const id = await queue.enqueueTask(remoteTask("x"));
  const json = JSON.stringify({ name: hostile, message: hostile, stack: `${hostile}\n    at ${hostile}` });
  const client = new Database(`${folder}/dbq.db`);
  client
    .prepare(
      `update dbq_tasks set func = @text, queue_name = @text, args = @list, kwargs = @object, meta = @object,
        error = @error, request_id = @text, unique_key = @text, worker_id = @text, progress = 1, progress_note = @text,
        updated_at = updated_at - 60000 where id = ${id}`,
    )
    .run({
      text: hostile,
      list: JSON.stringify([hostile]),
      object: JSON.stringify({ [hostile]: 1 }),
      error: json,
    });
  client
    .prepare(
      "insert into dbq_attempts (task_id, generation_id, outcome, error_name, error_message, worker_id) values (?, 1, ?, ?, ?, ?)",
    )
    .run(id, hostile, hostile, hostile, hostile);
  client
    .prepare(
      "insert into dbq_workers (id, queue_names, concurrency, lease, host, pid, heartbeat_at) values (?, ?, 1, 1000, ?, 1, 0)",
    )
    .run(hostile, JSON.stringify([hostile]), hostile);
  client.close();
  return { folder, queue, id: String(id) };
}

function expectClean(command: string, { out, err }: Ended): void {
  expect([command, unprintable.exec(out)?.[0], unprintable.exec(err)?.[0]]).toEqual([
    command,
    undefined,
    undefined,
  ]);
  // A task's data cannot forge a line of output.
  expect(out + err).not.toMatch(/^ok: 0/m);
}

test("commands that read or operate escape the control characters of a task's data", async () => {
  const { folder, id } = await hostileFolder();
  const commands = [
    ["list"],
    ["show", id],
    ["stats"],
    ["doctor"],
    ["list", "--json"],
    ["show", id, "--json"],
  ];
  for (const args of commands) await expectEscaped(folder, args);
  // These commands change the task, so they run one after the other.
  for (const args of [
    ["cancel", id],
    ["retry", id],
    ["cancel", id, "--json"],
  ])
    await expectEscaped(folder, args);
});

async function expectEscaped(folder: string, args: string[]): Promise<void> {
  const ended = await dbq(folder, args);
  expectClean(args.join(" "), ended);
  expect(ended.out).toMatch(escaped);
  if (args.includes("--json"))
    expect(JSON.stringify(JSON.parse(ended.out))).toContain(JSON.stringify(hostile).slice(1, -1));
}

test("commands that stream, wait or fail escape control characters", async () => {
  const { folder, queue } = await folderWithQueue();
  const tail = startDbq(folder, ["tail"]);
  await tail.err((line) => line.startsWith("following"));
  const worker = startDbq(folder, ["worker", tasks]);
  const failing = ["enqueue", "fail", JSON.stringify([hostile]), "--max-retries", "0", "--wait"];
  const failed = await dbq(folder, failing);
  const stray = await queue.enqueueTask(remoteTask("stray"));
  await worker.err((line) => line.includes(`unhandled rejection in task ${stray}: Thrown: null`));
  await tail.out((line) => line.includes("failed"));
  for (const { child } of [worker, tail]) child.kill("SIGTERM");
  const typed = await dbq(folder, ["show", hostile]);
  const unknown = await dbq(folder, [hostile]);
  const ends = { failed, typed, unknown, worker: await worker.ended, tail: await tail.ended };
  for (const [command, ended] of Object.entries(ends)) {
    expectClean(command, ended);
    expect(ended.out + ended.err).toMatch(escaped);
  }
});

test("a command whose reader closes the pipe exits quietly", async () => {
  const { folder, queue } = await folderWithQueue();
  // More than a pipe holds: the command is still writing when its reader ends.
  await queue.enqueueTasks(Array.from({ length: 1_000 }, () => [remoteTask("x"), "y".repeat(200)] as const));
  const [node, ...rest] = program;
  const command = [node, ...rest, "list", "--limit", "1000"].map((word) => `'${word}'`).join(" ");
  const piped = start(folder, "bash", ["-c", `${command} | head -1; echo "\${PIPESTATUS[0]}"`]);
  const plain = await piped.ended;
  expect(plain.err.replace(/^there may be more.*\n/, "")).toBe("");
  expect(plain.out).toMatch(/^ *ID .*\n0\n$/);
});

test("a command that cannot write its output exits with 1", async (context) => {
  if (!existsSync("/dev/full")) context.skip("/dev/full, a device without space, does not exist");
  const { folder, queue } = await folderWithQueue();
  await queue.enqueueTask(remoteTask("x"));
  await inPairs([["list"], ["show", "1", "--json"], ["--help"]], async (args) => {
    const command = [...program, ...args].map((word) => `'${word}'`).join(" ");
    const { code, err } = await start(folder, "bash", ["-c", `${command} > /dev/full`]).ended;
    expect([args[0], code, err]).toEqual([
      args[0],
      1,
      expect.stringMatching(/^stdout cannot .*: ENOSPC.*\n$/),
    ]);
  });
});

test("output has colors only on a terminal, and not with NO_COLOR", async (context) => {
  if (spawnSync("script", ["--version"]).status !== 0)
    context.skip("the program `script`, which makes a terminal, is not installed");
  const { folder, queue } = await folderWithQueue();
  await queue.cancelTask(await queue.enqueueTask(remoteTask("x")));
  const command = [...program, "list"].map((word) => `'${word}'`).join(" ");
  const onTerminal = async (env: NodeJS.ProcessEnv) =>
    (await start(folder, "script", ["-qec", command, "/dev/null"], { TERM: "xterm", ...env }).ended).out;
  const yellow = "\u001b[33mcancelled\u001b[39m";
  expect(await onTerminal({})).toContain(yellow);
  const plain = await onTerminal({ NO_COLOR: "1" });
  expect(plain).toContain("cancelled");
  expect(plain).not.toContain("\u001b");
  expect((await dbq(folder, ["list"])).out).not.toContain("\u001b");
});

test("list --json prints the tasks of listTasks", async () => {
  const { folder, queue } = await folderWithQueue();
  const worker = await startWorker(folder);
  const id = await queue.enqueueTask(remoteTask<(a: number, b: number) => number>("add"), 1, 2);
  await worker.out(isEvent("completed", id));
  const { out } = await dbq(folder, ["list", "--json"]);
  expect(out.endsWith("]\n")).toBe(true);
  expect(JSON.parse(out)).toEqual(JSON.parse(JSON.stringify((await queue.listTasks()) satisfies Task[])));
});

test("a JSON list is written item by item, since it may exceed the longest string", async () => {
  const written: string[] = [];
  const spy = vi.spyOn(process.stdout, "write").mockImplementation((text) => written.push(String(text)) > 0);
  onTestFinished(() => spy.mockRestore());
  for (const values of [[], [1], [{ a: hostile }, undefined, ["b"], null]]) {
    written.length = 0;
    await jsonList(values);
    expect(written.join("")).toBe(`${jsonText(values)}\n`);
    const longest = Math.max(1, ...values.map((value) => jsonText(value).length));
    expect(Math.max(...written.map(({ length }) => length))).toBeLessThanOrEqual(longest + 1);
  }
});

test("on a terminal, list cuts the error of a task to the width, and a pipe gets all of it", async (context) => {
  if (spawnSync("script", ["--version"]).status !== 0)
    context.skip("the program `script`, which makes a terminal, is not installed");
  const { folder, queue } = await folderWithQueue();
  const reason = "the customer has cancelled the order";
  await queue.cancelTask(await queue.enqueueTask(remoteTask("x")), { reason });
  const command = [...program, "list"].map((word) => `'${word}'`).join(" ");
  const list = async (columns: number) => {
    const args = ["-qec", `stty cols ${columns}; ${command}`, "/dev/null"];
    const { out } = await start(folder, "script", args, { TERM: "xterm", NO_COLOR: "1" }).ended;
    return out.trimEnd().split(/\r?\n/);
  };
  const narrow = await list(80);
  expect(narrow.every((line) => line.length <= 80)).toBe(true);
  expect(narrow.at(-1)).toMatch(/ TaskCancelled: \w.*…$/);
  for (const columns of [0, 40, 200]) expect((await list(columns)).at(-1)).toContain(reason);
  expect((await dbq(folder, ["list"])).out).toContain(reason);
});
