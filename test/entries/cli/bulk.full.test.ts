/** `dbq retry`, `cancel` and `delete` on all tasks that match. */
import { spawnSync } from "node:child_process";
import { expect, type TestContext, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { folderWithQueue, program, start } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

const charge = remoteTask<(n: number) => Promise<void>>("charge");
const mail = remoteTask<(n: number) => Promise<void>>("mail");

/** A queue with three pending tasks of `charge` and two of `mail`. */
async function filled() {
  const { folder, queue } = await folderWithQueue();
  await queue.enqueueTasks([1, 2, 3].map((n) => [charge, n] as const));
  await queue.enqueueTasks([1, 2].map((n) => [mail, n] as const));
  return { folder, queue };
}

test("without --yes, and without a terminal to ask on, it says how many tasks match, changes none and exits with 2", async () => {
  const { folder, queue } = await filled();
  const { code, out, err } = await dbq(folder, ["cancel", "--func", "charge"]);
  expect([code, out]).toEqual([2, "would cancel 3 tasks (3 pending)\n"]);
  expect(err).toBe("nothing was cancelled: add --yes to cancel\n");
  const asJson = await dbq(folder, ["delete", "--func", "mail", "--limit", "1", "--json"]);
  expect(asJson.code).toBe(2);
  expect(JSON.parse(asJson.out)).toEqual({ matching: 1, byStatus: { pending: 2 }, changed: 0, skipped: 0 });
  expect(await queue.countTasks()).toMatchObject({ pending: 5, cancelled: 0 });
});

test("where no task matches it says so, with exit code 0, with and without --yes", async () => {
  const { folder } = await filled();
  const none = ["retry", "--status", "failed"];
  expect(await dbq(folder, none)).toMatchObject({ code: 0, out: "", err: "no task to retry matches\n" });
  expect(await dbq(folder, [...none, "--yes"])).toMatchObject({ code: 0, out: "retried 0 tasks\n" });
});

test("with --yes it acts on those that match and on no others, and --limit takes the newest", async () => {
  const { folder, queue } = await filled();
  const cancel = ["cancel", "--func", "charge", "--limit", "2", "--reason", "sent twice", "--yes"];
  expect(await dbq(folder, cancel)).toMatchObject({ code: 0, out: "cancelled 2 tasks\n" });
  const cancelled = await queue.listTasks({ status: "cancelled" });
  expect(cancelled.map(({ args, error }) => [args, error?.message])).toEqual([
    [[3], "sent twice"],
    [[2], "sent twice"],
  ]);
  const retry = ["retry", "--status", "cancelled", "--func", "charge", "--yes"];
  expect(await dbqJson(folder, retry)).toEqual({ changed: 2, skipped: 0 });
  expect(await dbqJson(folder, ["delete", "--func", "mail", "--yes"])).toEqual({ changed: 2, skipped: 0 });
  expect(await queue.countTasks()).toMatchObject({ pending: 3, cancelled: 0 });
});

test("--limit counts only tasks that the command may change, as it has said", async () => {
  const { folder, queue } = await filled();
  await queue.cancelTasks({ func: "charge" }, { limit: 2 });
  const cancel = ["cancel", "--func", "charge", "--limit", "1"];
  expect(await dbq(folder, cancel)).toMatchObject({ out: "would cancel 1 task (1 pending)\n" });
  expect(await dbq(folder, [...cancel, "--yes"])).toMatchObject({ code: 0, out: "cancelled 1 task\n" });
  const none = ["retry", "--status", "running,pending", "--limit", "1", "--yes"];
  expect(await dbqJson(folder, none)).toEqual({ changed: 0, skipped: 1 });
});

test("--since and --before choose by the time of the enqueue: how long ago, or a time", async () => {
  const { folder } = await filled();
  const matching = async (...args: string[]) => {
    const { out } = await dbq(folder, ["cancel", "--func", "charge", ...args, "--json"]);
    return JSON.parse(out).matching;
  };
  expect(await matching("--since", "1h")).toBe(3);
  expect(await matching("--before", "1h")).toBe(0);
  expect(await matching("--since", "2020-01-01", "--before", "2020-01-02T00:00:00Z")).toBe(0);
  expect(await dbqJson(folder, ["list", "--since", "2020-01-01"])).toHaveLength(5);
  const early = await dbq(folder, ["list", "--since", "999999999d"]);
  expect([early.code, early.err]).toEqual([2, expect.stringContaining("option '--since <time>' argument")]);
  const unclear = await dbq(folder, ["list", "--since", "2"]);
  expect(unclear.code).toBe(2);
  expect(unclear.err).toContain("'2' is invalid. Expected how long ago, such as 2h, or a time");
});

test.each([
  [["retry", "--func", "charge"], "name the --status of the tasks to retry, such as failed"],
  [["retry"], "give the ids of tasks, or options that choose them"],
  [["cancel", "1", "--func", "charge"], "give the ids of tasks or options that choose them, not both"],
  [["cancel", "1", "--yes"], "--limit and --yes belong to options that choose tasks"],
  [["delete", "--yes"], "name the tasks to delete by options"],
])("%j is refused, and changes nothing", async (args, message) => {
  const { folder, queue } = await filled();
  const { code, err } = await dbq(folder, args);
  expect([code, err]).toEqual([2, expect.stringContaining(message)]);
  expect(await queue.countTasks()).toMatchObject({ pending: 5 });
});

/** The queue of `filled`, and a command that cancels its three tasks on a terminal of its own. */
async function onTerminal(context: TestContext) {
  if (spawnSync("script", ["--version"]).status !== 0)
    context.skip("the program `script`, which makes a terminal, is not installed");
  const { folder, queue } = await filled();
  /** Sends keys when the question is there, and resolves to what the terminal shows in the end. */
  const answer = async (keys: string) => {
    const command = [...program, "cancel", "--func", "charge", "--db", "dbq.db"].join(" ");
    const terminal = start(folder, "script", ["-qec", command, "/dev/null"], {
      TERM: "xterm",
      NO_COLOR: "1",
    });
    let shown = "";
    terminal.child.stdout?.on("data", (chunk: Buffer) => {
      const asked = shown.includes("[y/N]");
      shown += chunk.toString();
      if (!asked && shown.includes("[y/N]")) terminal.child.stdin?.write(keys);
    });
    const { out, code } = await terminal.ended;
    return { out, code };
  };
  return { queue, answer };
}

test("on a terminal it asks, and acts after yes only", async (context) => {
  const { queue, answer } = await onTerminal(context);
  expect((await answer("n\n")).out).toContain("cancel 3 tasks (3 pending)? [y/N]");
  expect(await queue.countTasks()).toMatchObject({ pending: 5 });
  expect((await answer("y\n")).out).toContain("cancelled 3 tasks");
  expect(await queue.countTasks()).toMatchObject({ pending: 2, cancelled: 3 });
});

test("Ctrl-C and Ctrl-D at the question are a no", async (context) => {
  const { queue, answer } = await onTerminal(context);
  for (const keys of ["\x03", "\x04"]) {
    const { out, code } = await answer(keys);
    expect([code, out]).toEqual([2, expect.stringContaining("nothing was cancelled: add --yes to cancel")]);
    expect(out).not.toContain("Abort");
  }
  expect(await queue.countTasks()).toMatchObject({ pending: 5 });
});
