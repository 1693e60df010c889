/** The commands that repair causes: a shell parses them, and the command line runs them, whatever the names are. */
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { pauseFunction, setLimit } from "../../../src/features/causes/repairs.ts";
import { type Cause, type LimitTarget, type Queue, remoteTask } from "../../../src/index.ts";
import { folderWithQueue, startDbq, tasks } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

/** Names that a shell or the command line could take for something else. */
const names = [
  "a b",
  "it's",
  "-x",
  "--yes",
  "mail,sms",
  '"q"',
  "`id` $(id)",
  "a\nb",
  " lead ",
  "#1",
  "*",
  "ü🎉",
];

const hasBash = spawnSync("bash", ["--version"]).status === 0;

/** What a shell makes of the words behind `dbq`. */
function wordsOf(command: string): string[] {
  const script = `dbq() { "$NODE" -e 'console.log(JSON.stringify(process.argv.slice(1)))' -- "$@"; }; ${command}`;
  const env = { ...process.env, NODE: process.execPath };
  const { stdout, stderr } = spawnSync("bash", ["-c", script], { encoding: "utf8", env });
  if (stderr !== "") throw new Error(`${command}: ${stderr}`);
  return JSON.parse(stdout);
}

async function run(folder: string, command: string | null): Promise<void> {
  const { code, err } = await dbq(folder, wordsOf(command ?? "dbq nothing"));
  expect(`${command}: ${code} ${code === 0 ? "" : err}`).toBe(`${command}: 0 `);
}

const causesOf = async (queue: Queue, kind: string): Promise<Cause[]> =>
  (await queue.listCauses()).filter((cause) => cause.kind === kind);

describe.skipIf(!hasBash)("the commands of causes", () => {
  test("resume what is paused, and end what piles up", async () => {
    const { folder, queue } = await folderWithQueue();
    await queue.setCauseThresholds({ pausedAfter: 1, pilingTasks: 1 });
    const other = remoteTask("other");
    for (const name of names) {
      await queue.enqueueTasks([[remoteTask(name)], [other.with({ queueName: name })]]);
      await queue.pause({ func: name });
      await queue.pause({ queueName: name });
    }
    // A schedule's name has no white space at its ends.
    const schedules = names.filter((name) => name.trim() === name);
    for (const name of schedules) {
      await queue.schedule(name, { every: "1h", overlap: "allow" }, remoteTask("made"));
      await queue.triggerSchedule(name);
    }
    await expect.poll(async () => (await causesOf(queue, "paused")).length).toBe(2 * names.length);
    for (const { fix } of await causesOf(queue, "paused")) await run(folder, fix.command);
    expect(await causesOf(queue, "paused")).toEqual([]);
    for (const { fix, otherFix } of await causesOf(queue, "piling")) {
      await run(folder, fix.command);
      await run(folder, `${otherFix?.command} --yes`);
    }
    expect(await causesOf(queue, "piling")).toEqual([]);
    expect((await queue.listSchedules()).map(({ overlap }) => overlap)).toEqual(schedules.map(() => "skip"));
  });

  test("pause a function, and raise each kind of limit", async () => {
    const { folder, queue } = await folderWithQueue();
    const values = { concurrency: 7, rate: { limit: 30, per: 60_000, burst: 2 } };
    const targets = names.flatMap((name): LimitTarget[] => [
      name,
      { queueName: name },
      { func: name },
      { func: name, group: name },
    ]);
    for (const target of targets) await run(folder, setLimit(values, target).command);
    for (const name of names) await run(folder, pauseFunction(name, "").command);
    const limits = await queue.listLimits();
    for (const target of targets)
      expect(limits).toContainEqual(expect.objectContaining({ ...values, target }));
    const paused = limits.filter(({ pausedAt }) => pausedAt !== null).map(({ target }) => target);
    expect(new Set(paused)).toEqual(new Set(names.map((func) => ({ func }))));
  });

  test("start a worker for a queue, whatever its name is", async () => {
    const { folder, queue } = await folderWithQueue();
    await queue.setCauseThresholds({ unservedAfter: 1 });
    const add = remoteTask<(a: number, b: number) => Promise<number>>("add");
    const queues = ["mail,sms", " lead ", "-x", "it's a b"];
    const ids = await queue.enqueueTasks(queues.map((queueName) => [add.with({ queueName }), 1, 2] as const));
    await expect
      .poll(async () => (await causesOf(queue, "unserved")).length, { timeout: 20_000 })
      .toBe(queues.length);
    for (const { fix } of await causesOf(queue, "unserved")) {
      const [, command = ""] = /`(dbq worker .*)`/s.exec(fix.advice ?? "") ?? [];
      const words = wordsOf(command).map((word) => (word === "tasks.js" ? tasks : word));
      const { code } = await startDbq(folder, [...words, "--until-idle"]).ended;
      expect(code).toBe(0);
    }
    for (const id of ids) expect((await queue.getTask(id))?.status).toBe("completed");
  }, 120_000);
});

test("doctor, stats and top list the causes: how bad, which kind, why, and the command", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.setCauseThresholds({ pausedAfter: 1 });
  const wanted =
    /warning paused: the function send is paused since .*, and 1 task waits\n {2}dbq resume --func send\n/;
  const commands = [["doctor"], ["stats"], ["top", "--once"]];
  for (const args of commands) {
    expect((await dbq(folder, args)).out).not.toContain("warning");
    expect(await dbqJson(folder, [args[0] ?? "", "--json"])).toMatchObject({ causes: [] });
  }
  await queue.enqueueTasks([[remoteTask("send")]]);
  await queue.pause({ func: "send" });
  await expect.poll(async () => (await causesOf(queue, "paused")).length).toBe(1);
  for (const args of commands) {
    const { out, code } = await dbq(folder, args);
    // A pause is no problem of the database, of a worker or of a schedule: `doctor` exits as before.
    expect(code).toBe(0);
    expect(out.replace(/(paused:) +/, "$1 ").replace(/\n +dbq/, "\n  dbq")).toMatch(wanted);
    const found = await dbqJson<{ causes: unknown }>(folder, [args[0] ?? "", "--json"]);
    const [{ oldestAge: _, ...cause } = {}] = JSON.parse(JSON.stringify(await queue.listCauses()));
    expect(found.causes).toMatchObject([cause]);
  }
  expect((await dbq(folder, ["doctor"])).out).toContain("no problem was found but what is listed above");
}, 60_000);
