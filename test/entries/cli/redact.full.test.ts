/** `--redact` and `DBQ_REDACT`: what commands show of tasks. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Worker } from "../../../src/index.ts";
import { failing } from "../../features/failures/scenario.ts";
import { dbqUrl, folderWithQueue, isEvent, startDbq } from "./dbq.ts";
import { dbq } from "./in-process.ts";

const hiding = `export default (task) => ({ ...task, args: ["***"], kwargs: {}, meta: {}, result: undefined, error: null, progressNote: null });`;

/** A queue with a failed task whose arguments, error and log line have the word "secret". */
async function folderWith(redact: string) {
  const { folder, queue } = await folderWithQueue();
  writeFileSync(join(folder, "redact.mjs"), redact);
  const fails = failing();
  const id = await queue.enqueueTask(fails.with({ meta: { of: "secret" }, maxRetries: 0 }), "secret");
  const worker = new Worker(queue);
  await worker.start();
  await queue.awaitTaskCompletion(id, { timeout: "20s" });
  await worker.stop();
  await queue.listFailures();
  return { folder, queue, fails, id: String(id) };
}

/** All commands that show values of tasks, and end by themselves. */
const commandsOn = (id: string): string[][] => [
  ["list"],
  ["show", id],
  ["failures"],
  ["retry", id],
  ["cancel", id],
];

test("what redact hides, no command shows, as text or as JSON", async () => {
  for (const json of [[], ["--json"]]) {
    const clear = await folderWith(hiding);
    const shown: string[] = [];
    for (const command of commandsOn(clear.id)) {
      const { out, code } = await dbq(clear.folder, [...command, ...json]);
      expect([command, code]).toEqual([command, 0]);
      if (out.includes("secret")) shown.push(String(command[0]));
    }
    // Without redact they show it: the commands of this test are those that could.
    expect(shown).toEqual(
      json.length > 0 ? ["list", "show", "failures", "retry", "cancel"] : ["list", "show", "failures"],
    );
    const { folder, queue, id } = await folderWith(hiding);
    for (const command of commandsOn(id)) {
      const { out, err, code } = await dbq(folder, [...command, ...json, "--redact", "redact.mjs"]);
      expect([command, code, out + err]).toEqual([command, 0, expect.not.stringContaining("secret")]);
    }
    expect((await queue.getTask(Number(id)))?.args).toEqual(["secret"]);
  }
});

test("DBQ_REDACT names the module, and a task that it returns as it is stays as it is", async () => {
  const { folder, id } = await folderWith(`export default (task) => task;`);
  const { out } = await dbq(folder, ["show", id], { DBQ_REDACT: "redact.mjs" });
  expect(out).toContain('["secret"]');
  writeFileSync(join(folder, "other.mjs"), hiding);
  const hidden = await dbq(folder, ["show", id], { DBQ_REDACT: "other.mjs" });
  expect(hidden.out).toContain('["***"]');
});

test("an error of redact hides the values, and is reported without its message", async () => {
  const { folder, id } = await folderWith(
    `export default (task) => { throw new RangeError("cannot hide " + task.args[0]); };`,
  );
  for (const command of commandsOn(id)) {
    const { out, err, code } = await dbq(folder, [...command, "--redact", "redact.mjs"]);
    expect([command, code, out + err]).toEqual([command, 0, expect.not.stringContaining("secret")]);
    expect(err).toContain(`redact has failed with RangeError, so values of task ${id} are not shown`);
  }
});

test("a module that exports no function is refused", async () => {
  const { folder } = await folderWith("export const redact = 1;");
  expect(await dbq(folder, ["list", "--redact", "redact.mjs"])).toMatchObject({
    code: 1,
    err: expect.stringContaining(
      "--redact redact.mjs has no default export: name the module that exports a function",
    ),
  });
  const missing = await dbq(folder, ["list", "--redact", "gone.mjs"]);
  expect([missing.code, missing.err]).toEqual([
    1,
    expect.stringContaining("--redact gone.mjs: there is no file"),
  ]);
});

test("the log of a worker, tail, and the result of enqueue --wait are without what redact hides", async () => {
  const { folder, queue } = await folderWithQueue();
  writeFileSync(join(folder, "redact.mjs"), hiding);
  writeFileSync(
    join(folder, "tasks.mjs"),
    `import { currentTask, task } from ${JSON.stringify(dbqUrl)};
     task("fail", async (text) => { currentTask().log("log of " + text); throw new Error("no " + text) }, { maxRetries: 0 });
     task("echo", async (text) => text);`,
  );
  const tail = startDbq(folder, ["tail", "--json", "--logs", "--redact", "redact.mjs"]);
  await tail.err(isEvent("following"));
  const worker = startDbq(folder, ["worker", "tasks.mjs", "--json", "--redact", "redact.mjs"]);
  const ended = await dbq(folder, [
    "enqueue",
    "echo",
    '["secret"]',
    "--wait",
    "20s",
    "--redact",
    "redact.mjs",
  ]);
  expect([ended.code, ended.out]).toEqual([0, "null\n"]);
  const failed = await dbq(folder, [
    "enqueue",
    "fail",
    '["secret"]',
    "--wait",
    "20s",
    "--redact",
    "redact.mjs",
  ]);
  expect([failed.code, failed.err]).toEqual([1, expect.not.stringContaining("secret")]);
  expect((await queue.listTasks({ status: "failed" }))[0]?.error?.message).toBe("no secret");
  await tail.out(isEvent("log"));
  await tail.out(isEvent("failed"));
  tail.child.kill("SIGINT");
  expect((await tail.ended).out).not.toContain("secret");
  worker.child.kill("SIGTERM");
  const { out, err } = await worker.ended;
  expect(out).toContain('"event":"failed"');
  expect(out + err).not.toContain("secret");
});
