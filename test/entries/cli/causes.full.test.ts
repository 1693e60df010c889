/** `dbq causes` */
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { folderWithQueue } from "./dbq.ts";
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
    /^warning: the schedule hourly has 1 unfinished task, the oldest for .*\n {2}dbq schedule pause hourly\n$/,
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

test("metrics prints rules for the causes and a dashboard without a database, and one of them at a time", async () => {
  const folder = temporaryFolder();
  const rules = await dbq(folder, ["metrics", "--rules"]);
  expect([rules.code, rules.out]).toEqual([0, expect.stringContaining("- alert: DbqCrashing\n")]);
  const board = await dbq(folder, ["metrics", "--grafana"]);
  expect([board.code, JSON.parse(board.out).title]).toEqual([0, "dbq"]);
  const both = await dbq(folder, ["metrics", "--grafana", "--rules"]);
  expect([both.code, both.out]).toEqual([2, ""]);
});
