/** `dbq causes` */
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { folderWithQueue, startDbq } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

const nobody = remoteTask<() => Promise<void>>("nobody");

test("causes prints why and the command, with exit code 1, and says when nothing is wrong", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.setCauseThresholds({ pilingTasks: 1 });
  const before = await dbq(folder, ["causes"]);
  expect([before.code, before.out, before.err]).toEqual([0, "", "nothing is wrong\n"]);
  await queue.schedule("hourly", { every: "1h" }, nobody);
  await queue.triggerSchedule("hourly");
  const { code, out } = await dbq(folder, ["causes"]);
  expect(code).toBe(1);
  expect(out).toMatch(
    /^warning: the schedule hourly has 1 unfinished task, the oldest for .*\n {2}dbq schedule pause hourly\n {2}dbq cancel --schedule hourly --status pending,scheduled\n$/,
  );
  const asJson = await dbq(folder, ["causes", "--json"]);
  expect(asJson.code).toBe(1);
  expect(JSON.parse(asJson.out)).toMatchObject([{ key: "piling:hourly", severity: "warning", tasks: 1 }]);
});

test("--set changes thresholds for all, null brings a default back, and a wrong one is refused", async () => {
  const { folder, queue } = await folderWithQueue();
  const set = ["causes", "--set", "pausedAfter=5m", "--set", "pilingTasks=10"];
  expect(await dbqJson(folder, set)).toMatchObject({ pausedAfter: 300_000, pilingTasks: 10 });
  expect(await queue.causeThresholds()).toMatchObject({ pausedAfter: 300_000, pilingTasks: 10 });
  const { out } = await dbq(folder, ["causes", "--set", "pilingTasks=null"]);
  expect(out).toContain("pilingTasks 3\n");
  const wrong = await dbq(folder, ["causes", "--set", "pilingTasks=many"]);
  expect([wrong.code, wrong.out]).toEqual([2, ""]);
  expect(wrong.err).toContain("setCauseThresholds: pilingTasks");
  expect((await dbq(folder, ["causes", "--set", "pilingTasks"])).code).toBe(2);
});

test("causes exits with 2 when it cannot look", async () => {
  const { folder } = await folderWithQueue();
  const { code, out, err } = await dbq(folder, ["causes", "--db", "none.db"]);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toContain("none.db: there is no such file");
});

test("--watch prints what begins and what ends until a signal, and of watchers of one name one prints it", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.setCauseThresholds({ pilingTasks: 1, endedAfter: 0 });
  const people = startDbq(folder, ["causes", "--watch"]);
  const programs = [0, 1].map(() => startDbq(folder, ["causes", "--watch", "--name", "pager", "--json"]));
  for (const { err } of [people, ...programs]) await err((line) => line.includes("watching"));
  await queue.schedule("hourly", { every: "1h" }, nobody);
  const task = await queue.triggerSchedule("hourly");
  await people.out((line) => line.includes("  dbq schedule pause hourly"));
  await Promise.any(programs.map(({ out }) => out((line) => line.includes('"began"'))));
  await queue.cancelTask(Number(task));
  await people.out((line) => line.startsWith("ended: the schedule hourly has 1 unfinished task"));
  await Promise.any(programs.map(({ out }) => out((line) => line.includes('"ended"'))));
  for (const { child } of [people, ...programs]) child.kill("SIGTERM");
  const ended = await Promise.all([people, ...programs].map((one) => one.ended));
  expect(ended.map(({ code }) => code)).toEqual([0, 0, 0]);
  const printed = ended.slice(1).flatMap(({ out }) =>
    out
      .trim()
      .split("\n")
      .filter((line) => line !== ""),
  );
  expect(printed.map((line) => JSON.parse(line))).toMatchObject([
    { time: expect.any(String), type: "began", cause: { key: "piling:hourly", schedule: "hourly" } },
    { type: "ended", cause: { key: "piling:hourly" } },
  ]);
  const alone = await dbq(folder, ["causes", "--name", "pager"]);
  expect([alone.code, alone.err]).toEqual([2, expect.stringContaining("--name is for --watch")]);
}, 60_000);

test("metrics prints rules for the causes and a dashboard without a database, and one of them at a time", async () => {
  const folder = temporaryFolder();
  const rules = await dbq(folder, ["metrics", "--rules"]);
  expect([rules.code, rules.out]).toEqual([0, expect.stringContaining("- alert: DbqCrashing\n")]);
  const board = await dbq(folder, ["metrics", "--grafana"]);
  expect([board.code, JSON.parse(board.out).title]).toEqual([0, "dbq"]);
  const both = await dbq(folder, ["metrics", "--grafana", "--rules"]);
  expect([both.code, both.out]).toEqual([2, ""]);
});
