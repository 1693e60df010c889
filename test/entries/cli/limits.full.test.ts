import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { type LimitInfo, moveQueue, openQueue, remoteTask, type Task } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { startDbq, tasks } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

const folderWithTask = async () => {
  const folder = temporaryFolder();
  await dbq(folder, ["enqueue", "call", "[1]"]);
  return folder;
};

test("limit sets and removes a limit; limits lists them", async () => {
  const folder = await folderWithTask();
  expect((await dbq(folder, ["limits"])).out).toBe("no limits\n");
  const set = await dbq(folder, ["limit", "api", "--concurrency", "20", "--rate", "500/1m", "--burst", "5"]);
  expect(set).toMatchObject({ code: 0, out: "the limit of name api is set\n" });
  await dbq(folder, ["limit", "--func", "call", "--group", "acme", "--concurrency", "2"]);
  const limits = await dbqJson<LimitInfo[]>(folder, ["limits"]);
  expect(limits).toMatchObject([
    { target: { func: "call", group: "acme" }, concurrency: 2, rate: null },
    { target: "api", concurrency: 20, rate: { limit: 500, per: 60_000, burst: 5 } },
  ]);
  const { out } = await dbq(folder, ["limits"]);
  expect(out).toMatch(/function call, group acme +2/);
  expect(out).toMatch(/name api +20 +500\/1 ?min.* \(burst 5\)|name api +20 +500\/\S+ .*burst 5/);
  expect((await dbq(folder, ["limit", "api", "--remove"])).out).toBe("the limit of name api is removed\n");
  expect(await dbqJson(folder, ["limits"])).toHaveLength(1);
});

test("list --group lists the tasks of a group", async () => {
  const folder = await folderWithTask();
  await dbq(folder, ["enqueue", "call", "[2]", "--group", "acme"]);
  expect(await dbqJson(folder, ["list", "--group", "acme"])).toMatchObject([{ args: [2], groupKey: "acme" }]);
});

test("pause and resume say whether they changed something; stats and doctor show pauses and blame no worker", async () => {
  const folder = await folderWithTask();
  expect((await dbq(folder, ["pause", "--func", "call"])).out).toBe("function call is now paused\n");
  expect((await dbq(folder, ["pause", "--func", "call"])).out).toBe("function call was already paused\n");
  expect((await dbq(folder, ["stats"])).out).toMatch(/function call .* paused since \d{4}-/);
  expect((await dbq(folder, ["doctor"])).out).toMatch(/function call .* paused since \d{4}-/);
  expect(await dbqJson(folder, ["resume", "--func", "call"])).toEqual({ changed: true, stillPaused: [] });
  expect((await dbq(folder, ["resume", "--func", "call"])).out).toBe("function call was not paused\n");
});

test("doctor with modules names the functions with a limit that no module registers", async () => {
  const folder = temporaryFolder();
  await (await openQueue(join(folder, "dbq.db"))).close();
  await dbq(folder, ["limit", "--func", "cal", "--group", "acme", "--concurrency", "2"]);
  await dbq(folder, ["pause", "--func", "cal"]);
  const { code, out } = await startDbq(folder, ["doctor", tasks, "--json"]).ended;
  const problem = "a limit or a pause is about the function cal, which none of the given modules registers";
  expect({ code, problems: JSON.parse(out).problems }).toEqual({ code: 1, problems: [problem] });
  expect(await dbqJson(folder, ["doctor"])).toMatchObject({ ok: true, problems: [] });
});

test("show names the group of a task", async () => {
  const folder = temporaryFolder();
  const queue = await openQueue(join(folder, "dbq.db"));
  onTestFinished(() => queue.close());
  const id = await queue.enqueueTask(remoteTask("call", { group: "acme" }));
  expect((await dbq(folder, ["show", String(id)])).out).toMatch(/group +acme/);
  expect((await dbqJson<Task>(folder, ["show", String(id)])).groupKey).toBe("acme");
});

test("a move carries limits and pauses", async () => {
  const folder = temporaryFolder();
  const [from, to] = [await openQueue(join(folder, "a.db")), await openQueue(join(folder, "b.db"))];
  onTestFinished(async () => void (await Promise.all([from.close(), to.close()])));
  await from.setLimit("api", { concurrency: 3, rate: { limit: 7, per: "1m", burst: 2 } });
  await from.setLimit({ func: "call", group: "acme" }, { concurrency: 1 });
  await from.pause({ queueName: "mail" });
  const before = await from.listLimits();
  await moveQueue(from, to);
  expect(await to.listLimits()).toEqual(before);
});

test("to remove a limit that is not there says so; a rate without its duration names that", async () => {
  const folder = await folderWithTask();
  await dbq(folder, ["pause", "--func", "call"]);
  for (const [target, text] of [
    [["nope"], "name nope"],
    [["--func", "call"], "function call"],
  ] as const)
    expect(await dbq(folder, ["limit", ...target, "--remove"])).toMatchObject({
      code: 0,
      out: `${text} had no limit\n`,
    });
  expect(await dbq(folder, ["limit", "openai", "--rate", "500"])).toMatchObject({
    code: 2,
    err: expect.stringContaining('such as 100/1m, got "500": the duration is missing'),
  });
});

test("enqueue --group gives the task its group", async () => {
  const folder = temporaryFolder();
  await dbq(folder, ["enqueue", "call", "--group", "acme"]);
  expect((await dbqJson<Task>(folder, ["show", "1"])).groupKey).toBe("acme");
});

test("move says how many schedules and limits the new database has", async () => {
  const folder = await folderWithTask();
  await dbq(folder, ["limit", "api", "--concurrency", "3"]);
  await dbq(folder, ["schedule", "add", "a", "call", "--every", "1h"]);
  const moved = await dbq(folder, ["move", "--from", "dbq.db", "--to", "new.db"]);
  expect(moved.code).toBe(0);
  expect(moved.err).toContain("it also has 1 schedule, and 1 limit or pause");
});

test("limits marks a limit in code, and one that is replaced; a rate is printed as it is typed", async () => {
  const folder = temporaryFolder();
  const queue = await openQueue(join(folder, "dbq.db"));
  onTestFinished(() => queue.close());
  const values = { concurrency: null, rate: { limit: 50, per: 1_000, burst: 1 } };
  await internalsOf(queue).store.limits.declare([
    { func: "charge", values },
    { func: "send", values },
  ]);
  await queue.pause({ func: "send" });
  await queue.setLimit({ func: "charge" }, { rate: { limit: 3, per: "90m" } });
  await queue.setLimit({ func: "send", group: "acme" }, { rate: { limit: 7, per: 1_500 } });
  const { out } = await dbq(folder, ["limits"]);
  expect(out).toMatch(/^function charge +50\/1s .*from code, replaced$/m);
  expect(out).toMatch(/^function charge +3\/90m +0 +0 +0 *$/m);
  expect(out).toMatch(/^function send +50\/1s .*from code$/m);
  expect(out).toMatch(/^function send, group acme +7\/1500ms /m);
});

test("in JSON, waiting of a shared name is null, because its tasks are not counted", async () => {
  const folder = await folderWithTask();
  await dbq(folder, ["limit", "--func", "call", "--concurrency", "1"]);
  const set = await dbqJson(folder, ["limit", "api", "--concurrency", "1"]);
  const { limits: ofStats } = await dbqJson<{ limits: unknown }>(folder, ["stats"]);
  const { limits: ofTop } = await dbqJson<{ limits: unknown }>(folder, ["top"]);
  for (const limits of [set, await dbqJson(folder, ["limits"]), ofStats, ofTop])
    expect(limits).toMatchObject([
      { target: { func: "call" }, waiting: 1 },
      { target: "api", waiting: null },
    ]);
});
