/** `dbq top` as a process: in a real terminal, which it leaves as it was, and in a pipe. */
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { dbq, dbqJson, folderWithQueue, program, start } from "./dbq.ts";

const enter = "\u001b[?1049h";
const leave = "\u001b[?25h\u001b[?1049l";

async function folderWithTasks() {
  const { folder, queue } = await folderWithQueue();
  await queue.enqueueTasks(Array.from({ length: 3 }, (_, i) => [remoteTask("send"), i] as const));
  return { folder, queue };
}

test.each([
  ["q", "q"],
  ["Ctrl-C", "\u0003"],
])("it shows new figures each interval, and %s gives the terminal back", async (_, key) => {
  if (spawnSync("script", ["--version"]).status !== 0) throw new Error("the program `script` is missing");
  const { folder, queue } = await folderWithTasks();
  const top = [...program, "top", "--interval", "200ms"].map((word) => `'${word}'`).join(" ");
  const command = `stty cols 60 rows 12; stty -g; ${top}; echo "code $?"; stty -g`;
  const terminal = start(folder, "script", ["-qec", command, "/dev/null"], { TERM: "xterm", NO_COLOR: "1" });
  await terminal.out((line) => line.includes("pending 3"));
  await queue.enqueueTask(remoteTask("send"), 4);
  await terminal.out((line) => line.includes("pending 4"));
  terminal.child.stdin?.write(key);
  const { out } = await terminal.ended;
  expect(out.split(enter)).toHaveLength(2);
  const [before, ...rest] = out.split(/\r?\n/).filter((line) => line !== "");
  expect(rest.at(-1)).toBe(before?.replace(enter, ""));
  expect(rest.at(-2)?.endsWith(`${leave}code 0`)).toBe(true);
});

test("in a pipe and with --once it prints once; with --json one value", async () => {
  const { folder } = await folderWithTasks();
  const piped = await dbq(folder, ["top"]);
  expect(piped).toMatchObject({ code: 0, err: "" });
  expect(piped.out).toMatch(/^dbq top {2}dbq\.db/);
  expect(piped.out).toMatch(/^default +3 +0 /m);
  expect(piped.out).not.toContain("\u001b");
  expect((await dbq(folder, ["top", "--once"])).out).toContain("pending 3");
  const look = await dbqJson<object>(folder, ["top"]);
  expect(Object.keys(look)).toEqual([
    ..."at since queues unservedFunctions workers functions limits causes".split(" "),
  ]);
  expect(look).toMatchObject({ queues: [{ name: "default", pending: 3 }], workers: [] });
});

test("a database that does not exist is an error, and no terminal is changed", async () => {
  const { folder } = await folderWithQueue();
  const { code, out, err } = await dbq(folder, ["top", "--db", "none.db"]);
  expect([code, out]).toEqual([1, ""]);
  expect(err).toContain("none.db: there is no such file");
});
