/** `queue.listCauses()`: each kind of cause, made by the thing itself, and that it is gone after its repair. */
import { describe, expect, onTestFinished, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import {
  type Cause,
  type Limit,
  type Queue,
  remoteTask,
  ThrottleTask,
  task,
  Worker,
} from "../../../src/index.ts";
import { newWorker } from "../../conformance/arrange.ts";
import { deferred, queueByClock, startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { queueOnFile } from "../../worker/setup.ts";

const nobody = remoteTask<() => Promise<void>>("nobody");

/** Without those of the database: a file system of the tests may have one. */
async function causesOf(queue: Queue): Promise<Cause[]> {
  return (await queue.listCauses()).filter(({ kind }) => kind !== "database");
}

test("nothing is wrong with an empty queue, nor with one whose tasks just wait", async () => {
  const queue = await temporaryQueue();
  expect(await causesOf(queue)).toEqual([]);
  await queue.enqueueTask(nobody);
  await queue.pause({ func: "nobody" });
  expect(await causesOf(queue)).toEqual([]);
});

test("tasks that no worker takes are unserved, and critical", async () => {
  const { queue, raw } = await queueOnFile();
  const id = await queue.enqueueTask(nobody);
  raw.exec(
    `update dbq_tasks set updated_at = updated_at - 120000, created_at = created_at - 120000 where id = ${id}`,
  );
  const [cause, ...others] = await causesOf(queue);
  expect(others).toEqual([]);
  expect(cause).toMatchObject({
    key: "unserved:default:nobody",
    kind: "unserved",
    severity: "critical",
    func: "nobody",
    queueName: "default",
    tasks: 1,
    fix: {
      ...{ command: null, action: null },
      advice: "start a worker with the module that registers it: `dbq worker --queue default tasks.js`",
    },
  });
  expect(cause?.why).toContain(
    "1 task of nobody in the queue default waits for 2 min: no live worker serves its queue",
  );
  await queue.cancelTask(id);
  expect(await causesOf(queue)).toEqual([]);
});

test("a pause that tasks have waited behind is a warning, and its command resumes it", async () => {
  const { queue, raw } = await queueOnFile();
  await queue.enqueueTasks([[nobody], [nobody]]);
  await queue.pause({ queueName: "default" });
  raw.exec("update dbq_tasks set updated_at = updated_at - 120000");
  expect(await causesOf(queue)).toEqual([]);
  raw.exec("update dbq_limits set paused_at = paused_at - 120000");
  expect(await causesOf(queue)).toMatchObject([
    {
      key: "paused:queueName:default",
      kind: "paused",
      severity: "warning",
      tasks: 2,
      queueName: "default",
      fix: {
        command: "dbq resume --queue default",
        action: { on: "queues", action: "resume", fields: { name: "default" } },
      },
    },
  ]);
  await queue.resume({ queueName: "default" });
  expect((await causesOf(queue)).map(({ kind }) => kind)).not.toContain("paused");
});

test("a queue and a function of the same name have two causes; a group's pause has no age of the function's tasks", async () => {
  const { queue, raw } = await queueOnFile();
  const same = remoteTask<(tenant: string) => Promise<void>>("same");
  await queue.enqueueTasks([
    [same.with({ queueName: "same" }), "a"],
    [same.with({ group: "b" }), "b"],
  ]);
  for (const target of [{ queueName: "same" }, { func: "same" }, { func: "same", group: "b" }])
    await queue.pause(target);
  raw.exec("update dbq_tasks set updated_at = updated_at - 900000");
  raw.exec("update dbq_limits set paused_at = paused_at - 120000");
  const found = (await causesOf(queue)).filter(({ kind }) => kind === "paused");
  expect(found.map(({ key }) => key).sort()).toEqual([
    "paused:func:same",
    "paused:func:same:group:b",
    "paused:queueName:same",
  ]);
  expect(found.filter(({ oldestAge }) => oldestAge === undefined).map(({ group }) => group)).toEqual(["b"]);
});

test("a function of whose attempts half fail is failing; its threshold counts in all processes", async () => {
  const queue = await temporaryQueue();
  const name = uniqueName("fails");
  const fails = task(name, () => Promise.reject(new Error("no luck")), { maxRetries: 0 });
  const worker = await startedWorker(queue);
  const ids = await queue.enqueueTasks(Array.from({ length: 20 }, () => [fails] as const));
  for (const id of ids) await queue.awaitTaskCompletion(id);
  await worker.stop();
  expect(await causesOf(queue)).toMatchObject([
    {
      key: `failing:${name}`,
      severity: "critical",
      func: name,
      why: `20 of the last 20 attempts of ${name} have failed, within 10 min`,
      fix: {
        command: `dbq pause --func ${name}`,
        advice: `\`dbq failures --func ${name}\` names the reasons`,
      },
    },
  ]);
  expect(await queue.setCauseThresholds({ failingAttempts: 21 })).toMatchObject({ failingAttempts: 21 });
  expect(await causesOf(queue)).toEqual([]);
  expect(await queue.setCauseThresholds({ pilingTasks: 5 })).toMatchObject({ failingAttempts: 21 });
  await queue.setCauseThresholds({ failingAttempts: null });
  expect(await queue.causeThresholds()).toMatchObject({ failingAttempts: 20 });
  expect(await causesOf(queue)).toHaveLength(1);
});

test("a function that is paused while it fails or kills its workers is not to be paused again", async () => {
  const { queue, raw } = await queueOnFile();
  const name = uniqueName("fails");
  const fails = task(name, () => Promise.reject(new Error("no luck")), { maxRetries: 0 });
  const worker = await startedWorker(queue);
  const ids = await queue.enqueueTasks(Array.from({ length: 20 }, () => [fails] as const));
  for (const id of ids) await queue.awaitTaskCompletion(id);
  await worker.stop();
  for (const workerId of ["box:1:aa", "box:2:bb", "box:3:cc"])
    raw.exec(
      `insert into dbq_attempts (task_id, generation_id, worker_id, outcome) values (${ids[0]}, 2, '${workerId}', 'crashed')`,
    );
  const pauses = async () => (await causesOf(queue)).map(({ kind, fix }) => [kind, fix.action?.action]);
  await queue.pause({ func: name, group: "acme" });
  expect(await pauses()).toEqual([
    ["failing", "pause"],
    ["crashing", "pause"],
  ]);
  await queue.pause({ func: name });
  expect(await causesOf(queue)).toMatchObject([
    {
      why: `20 of the last 20 attempts of ${name} have failed, within 10 min; it is paused now`,
      fix: {
        ...{ command: null, action: null },
        advice: `\`dbq failures --func ${name}\` names the reasons; when it is repaired, \`dbq resume --func ${name}\` ends the pause`,
      },
    },
    {
      why: `3 workers died within 10 min while they ran ${name}; it is paused now`,
      fix: {
        ...{ command: null, action: null },
        advice: `\`dbq show ${ids[0]}\` has the attempts of one of its tasks; when it is repaired, \`dbq resume --func ${name}\` ends the pause`,
      },
    },
  ]);
  await queue.resume({ func: name });
  expect(await pauses()).toEqual([
    ["failing", "pause"],
    ["crashing", "pause"],
  ]);
});

test("a task that has run past its timeout is hung, and its command cancels it", async () => {
  const { queue, raw } = await queueOnFile();
  const started = deferred();
  const release = deferred();
  const name = uniqueName("hangs");
  const hangs = task(name, async () => {
    started.resolve();
    await release.promise;
  });
  const worker = await startedWorker(queue);
  const id = await queue.enqueueTask(hangs.with({ timeout: "1h" }));
  await started.promise;
  expect(await causesOf(queue)).toEqual([]);
  raw.exec(`update dbq_tasks set started_at = started_at - 2 * 3600000 where id = ${id}`);
  expect(await causesOf(queue)).toMatchObject([
    {
      key: `hung:${id}`,
      severity: "warning",
      taskId: id,
      func: name,
      why: `task ${id} (${name}) has run for 2 h: its timeout is 1 h`,
      fix: {
        command: `dbq cancel ${id}`,
        action: { on: "tasks", action: "cancel", fields: { id: String(id) } },
      },
    },
  ]);
  release.resolve();
  await queue.awaitTaskCompletion(id);
  await worker.stop();
  expect(await causesOf(queue)).toEqual([]);
});

test("a host on which workers die again and again is crashing, if no function is common to them", async () => {
  const { queue, raw } = await queueOnFile();
  await queue.enqueueTasks([[nobody], [remoteTask("two")], [remoteTask("three")], [remoteTask("two")]]);
  const crashed = (taskId: number, workerId: string) =>
    raw.exec(
      `insert into dbq_attempts (task_id, generation_id, worker_id, outcome) values (${taskId}, 2, '${workerId}', 'crashed')`,
    );
  // One worker with many tasks dies once, and a worker of another program has no host.
  for (const taskId of [1, 2, 3, 4]) crashed(taskId, "box:1:aa");
  crashed(2, "box:2:bb");
  crashed(2, "else:3:cc");
  crashed(3, "foreign");
  expect((await causesOf(queue)).filter(({ kind }) => kind === "crashing")).toMatchObject([
    { key: "crashing:func:two", why: "3 workers died within 10 min while they ran two" },
  ]);
  raw.exec("delete from dbq_attempts where worker_id = 'else:3:cc'");
  expect((await causesOf(queue)).filter(({ kind }) => kind === "crashing")).toEqual([]);
  crashed(1, "box:9:dd");
  expect((await causesOf(queue)).filter(({ kind }) => kind === "crashing")).toMatchObject([
    {
      key: "crashing:host:box",
      host: "box",
      severity: "critical",
      why: "3 workers on the host box died within 10 min, and no function is common to them",
      fix: {
        ...{ command: null, action: null },
        advice: "look at its memory and its log: `dmesg` names the processes that its kernel has killed",
      },
    },
  ]);
});

test("a schedule with three unfinished tasks is piling", async () => {
  const queue = await temporaryQueue();
  await queue.schedule("hourly report", { every: "1h", overlap: "allow" }, nobody);
  for (let n = 0; n < 2; n++) await queue.triggerSchedule("hourly report");
  expect(await causesOf(queue)).toEqual([]);
  await queue.triggerSchedule("hourly report");
  expect(await causesOf(queue)).toMatchObject([
    {
      key: "piling:hourly report",
      schedule: "hourly report",
      tasks: 3,
      fix: {
        command: "dbq schedule edit 'hourly report' --overlap skip",
        action: { on: "schedules", action: "edit", fields: { name: "hourly report", overlap: "skip" } },
      },
      otherFix: {
        command: "dbq cancel --schedule 'hourly report' --status pending,scheduled",
        action: {
          ...{ on: "tasks", action: "bulk" },
          fields: {
            action: "cancel",
            "filter.schedule": "hourly report",
            "filter.status": "pending,scheduled",
          },
        },
      },
    },
  ]);
  await queue.editSchedule("hourly report", { overlap: "skip" });
  expect(await causesOf(queue)).toMatchObject([
    {
      fix: { command: "dbq schedule pause 'hourly report'" },
      otherFix: { command: "dbq cancel --schedule 'hourly report' --status pending,scheduled" },
    },
  ]);
});

test("a limit is a cause when tasks have waited for it too long, and a busy healthy one is none", async () => {
  const { queue, raw } = await queueOnFile();
  const started = deferred();
  const release = deferred();
  const name = uniqueName("limited");
  const limited = task(name, async () => {
    started.resolve();
    await release.promise;
  });
  await queue.setLimit({ func: name }, { concurrency: 1 });
  const worker = await startedWorker(queue);
  const first = await queue.enqueueTask(limited);
  await started.promise;
  const second = await queue.enqueueTask(limited);
  expect(await causesOf(queue)).toEqual([]);
  raw.exec(`update dbq_tasks set updated_at = updated_at - 900000 where id = ${second}`);
  expect(await causesOf(queue)).toMatchObject([
    {
      key: `limited:func:${name}`,
      severity: "warning",
      func: name,
      tasks: 1,
      fix: {
        // One more than run and wait is enough.
        command: `dbq limit --func ${name} --concurrency 2`,
        action: { on: "limits", action: "limit", fields: { about: "func", name, concurrency: "2" } },
      },
    },
  ]);
  release.resolve();
  await queue.awaitTaskCompletion(first);
  await queue.awaitTaskCompletion(second);
  await worker.stop();
  expect(await causesOf(queue)).toEqual([]);
});

test("a worker that has missed half of its lease is frozen", async () => {
  const { queue, raw } = await queueOnFile();
  const { store } = internalsOf(queue);
  const id = "worker:1";
  await store.register(newWorker(id, { lease: 60_000 }));
  expect(await causesOf(queue)).toEqual([]);
  raw.exec(`update dbq_workers set heartbeat_at = heartbeat_at - 40000 where id = '${id}'`);
  expect(await causesOf(queue)).toMatchObject([
    {
      ...{ key: "frozen:worker\\:1", severity: "critical", workerId: id },
      fix: {
        ...{ command: null, action: null },
        advice: expect.stringMatching(
          /^look at its process on \S+: `ps -o stat,etime,args -p \d+`; to free its tasks at once, end it there: `kill -9 \d+`$/,
        ),
      },
    },
  ]);
});

test("critical causes come first, and then those that hold up more tasks", async () => {
  const { queue, raw } = await queueOnFile();
  await queue.enqueueTasks([[nobody], [nobody], [nobody.with({ queueName: "b" })]]);
  await queue.schedule("each hour", { every: "1h", overlap: "allow" }, nobody.with({ queueName: "c" }));
  for (let n = 0; n < 5; n++) await queue.triggerSchedule("each hour");
  raw.exec("update dbq_tasks set updated_at = updated_at - 120000 where schedule_name is null");
  expect((await causesOf(queue)).map(({ key }) => key)).toEqual([
    "unserved:default:nobody",
    "unserved:b:nobody",
    "piling:each hour",
  ]);
});

test.each([
  [{ pausedAfter: "5" }, "setCauseThresholds: pausedAfter: expected a duration"],
  [{ failingShare: 2 }, "setCauseThresholds: failingShare: expected a number above 0 and up to 1, got 2"],
  [{ pilingTasks: 0 }, "setCauseThresholds: pilingTasks"],
  [{ unknown: 1 }, 'setCauseThresholds: there is no option "unknown"'],
  [null, "setCauseThresholds: expected an object"],
])("the thresholds %j are refused, and nothing changes", async (changes, message) => {
  const queue = await temporaryQueue();
  const before = await queue.causeThresholds();
  await expect(queue.setCauseThresholds(changes as never)).rejects.toThrow(message);
  expect(await queue.causeThresholds()).toEqual(before);
});

test("thresholds that another program has broken are the defaults", async () => {
  const queue = await temporaryQueue();
  const { causes } = internalsOf(queue).store;
  const defaults = await queue.causeThresholds();
  for (const text of ["no json", "[]", '{"pilingTasks":"many","other":1}']) {
    await causes.changeThresholds(() => text);
    expect(await queue.causeThresholds()).toEqual(defaults);
  }
});

test("a worker in the process changes nothing about the causes", async () => {
  const queue = await temporaryQueue();
  const worker = new Worker(queue);
  onTestFinished(() => worker.stop({ grace: 0 }));
  await worker.start();
  expect(await causesOf(queue)).toEqual([]);
});

test("thresholds that are set at once are all kept, and so are those of a later version", async () => {
  const queue = await temporaryQueue();
  const { causes } = internalsOf(queue).store;
  await causes.changeThresholds(() => '{"ofLater":5}');
  await Promise.all([
    queue.setCauseThresholds({ pausedAfter: "5m" }),
    queue.setCauseThresholds({ pilingTasks: 9 }),
    queue.setCauseThresholds({ hungFactor: 20 }),
  ]);
  expect(await queue.causeThresholds()).toMatchObject({
    pausedAfter: 300_000,
    pilingTasks: 9,
    hungFactor: 20,
  });
  expect(JSON.parse((await causes.stored()).thresholds ?? "")).toMatchObject({ ofLater: 5 });
});

test("a task that runs far longer than its function does as a rule is hung, as the statistics of 10 seconds ago tell", async () => {
  const { queue, clock } = await queueByClock();
  const [started, release] = [deferred(), deferred()];
  let calls = 0;
  const quick = task(uniqueName("quick"), async () => {
    calls += 1;
    if (calls > 1) return;
    started.resolve();
    await release.promise;
  });
  const id = await queue.enqueueTask(quick);
  await startedWorker(queue, { concurrency: 1 });
  await started.promise;
  // Its heartbeats are too old by this clock, too.
  const hung = async () => (await causesOf(queue)).filter(({ kind }) => kind === "hung");
  clock.advance(120_000);
  expect(await hung()).toEqual([]);
  const ids = await queue.enqueueTasks(Array.from({ length: 20 }, () => [quick] as const));
  const other = await startedWorker(queue);
  for (const each of ids) await queue.awaitTaskCompletion(each);
  // It writes its statistics when it stops.
  await other.stop();
  expect(await hung()).toEqual([]);
  clock.advance(10_000);
  expect(await hung()).toMatchObject([
    { key: `hung:${id}`, why: expect.stringContaining("95 % of the attempts of the last hour took") },
  ]);
  release.resolve();
});

test.each(["'soon'", "9000000000000000", "-9000000000000000"])(
  "times of %s are not in the way of a look",
  async (time) => {
    const { queue, raw } = await queueOnFile();
    await queue.enqueueTask(nobody);
    await queue.pause({ func: "nobody" });
    await queue.schedule("hourly", { every: "1h", overlap: "allow" }, nobody);
    for (let n = 0; n < 3; n++) await queue.triggerSchedule("hourly");
    const hung = await queue.enqueueTask(nobody);
    raw.exec(`update dbq_limits set paused_at = ${time};
    update dbq_tasks set created_at = ${time} where schedule_name is not null;
    update dbq_tasks set status = 'running', timeout = 5, started_at = ${time} where id = ${hung}`);
    const found = await causesOf(queue);
    expect(found.map(({ kind }) => kind)).toContain("piling");
    expect(found.filter(({ since }) => Number.isNaN(since.getTime()))).toEqual([]);
    expect((await queue.listLimits()).map(({ pausedAt }) => pausedAt?.getTime())).not.toContain(Number.NaN);
  },
);

test("the command for a limit sets again what is used up, and keeps the rest", async () => {
  const { queue, raw } = await queueOnFile();
  await queue.setCauseThresholds({ limitedAfter: "5m" });
  const rated = remoteTask<() => Promise<void>>("rated");
  await queue.enqueueTasks([[rated], [rated], [rated]]);
  raw.exec("update dbq_tasks set updated_at = updated_at - 900000");
  const fixFor = async (limit: Limit) => {
    await queue.setLimit({ func: "rated" }, limit);
    return (await causesOf(queue)).find(({ kind }) => kind === "limited")?.fix;
  };
  const rate = { limit: 1, per: "5m" } as const;
  const target = { about: "func", name: "rated" };
  const action = (fields: object) => ({ on: "limits", action: "limit", fields: { ...target, ...fields } });
  const advice = "choose less where the service behind it cannot bear as much, or wait: no task is lost";
  expect(await fixFor({ rate })).toEqual({
    command: "dbq limit --func rated --rate 9/5m",
    action: action({ rate: "9/5m" }),
    advice,
  });
  expect(await fixFor({ rate: { ...rate, limit: 3, burst: 3 }, concurrency: 4 })).toEqual({
    command: "dbq limit --func rated --concurrency 4 --rate 9/5m --burst 3",
    action: action({ concurrency: "4", rate: "9/5m", burst: "3" }),
    advice,
  });
});

/** Sets the limit that a cause offers, as a person who takes its button as it is. */
async function takeOffer(queue: Queue, { fix }: Cause): Promise<Record<string, string>> {
  const { name = "", concurrency, rate: speed, burst } = fix.action?.fields ?? {};
  const [, limit, per] = /^(\d+)\/(.+)$/.exec(speed ?? "") ?? [];
  const rate = { limit: Number(limit), per: per as "1m", ...(burst && { burst: Number(burst) }) };
  await queue.setLimit(
    { func: name },
    { ...(concurrency && { concurrency: Number(concurrency) }), ...(speed && { rate }) },
  );
  return fix.action?.fields ?? {};
}

describe("the limit that is offered is no cause any more", () => {
  const limitedOf = async (queue: Queue) => (await causesOf(queue)).filter(({ kind }) => kind === "limited");

  test("of tasks that run at once: one more than its workers have slots for", async () => {
    const { queue, raw } = await queueOnFile();
    const release = deferred();
    const name = uniqueName("limited");
    const limited = task(name, () => release.promise);
    await queue.setLimit({ func: name }, { concurrency: 1 });
    const worker = await startedWorker(queue, { concurrency: 4 });
    const ids = await queue.enqueueTasks(Array.from({ length: 40 }, () => [limited] as const));
    const running = async () => (await queue.countTasks({ func: name })).running;
    await expect.poll(running, { timeout: 10_000 }).toBe(1);
    raw.exec("update dbq_tasks set updated_at = updated_at - 900000 where status = 'pending'");
    const [cause] = await limitedOf(queue);
    expect(await takeOffer(queue, cause as Cause)).toMatchObject({ concurrency: "5" });
    expect(await limitedOf(queue)).toEqual([]);
    // Its workers are full, and tasks that have waited for long wait still: not for the limit.
    await expect.poll(running, { timeout: 10_000 }).toBe(4);
    expect(await limitedOf(queue)).toEqual([]);
    release.resolve();
    for (const id of ids) await queue.awaitTaskCompletion(id);
    await worker.stop();
  });

  test("of a rate: also while tasks wait that have waited for long", async () => {
    const { queue, raw } = await queueOnFile();
    const name = uniqueName("rated");
    const ran: number[] = [];
    const rated = task(name, async () => {
      ran.push(1);
    });
    await queue.setLimit({ func: name }, { rate: { limit: 10, per: "1m" } });
    await queue.enqueueTasks(Array.from({ length: 700 }, () => [rated] as const));
    raw.exec("update dbq_tasks set updated_at = updated_at - 900000");
    const worker = await startedWorker(queue);
    await expect.poll(() => ran.length, { timeout: 10_000 }).toBeGreaterThan(0);
    const [cause] = await limitedOf(queue);
    expect(cause).toMatchObject({ fix: { action: { fields: { rate: "210/1m" } } } });
    await takeOffer(queue, cause as Cause);
    await expect.poll(() => ran.length, { timeout: 10_000 }).toBeGreaterThan(2);
    const [limit] = await queue.listLimits();
    expect(Date.now() - Number(limit?.putOffSince ?? Date.now() - 900_000)).toBeGreaterThan(0);
    expect(await limitedOf(queue)).toEqual([]);
    await worker.stop();
  });

  test("of a rate that lets all start soon, but has put one off for long", async () => {
    const { queue, raw } = await queueOnFile();
    const name = uniqueName("rated");
    const rated = task(name, async () => {});
    await queue.setLimit({ func: name }, { rate: { limit: 6, per: "1m" } });
    await queue.enqueueTasks(Array.from({ length: 30 }, () => [rated] as const));
    const worker = await startedWorker(queue);
    await expect
      .poll(async () => (await queue.listLimits())[0]?.putOff, { timeout: 10_000 })
      .toBeGreaterThan(5);
    // Those that were put off a moment ago start within five minutes: the rate is busy, and no cause.
    expect(await limitedOf(queue)).toEqual([]);
    raw.exec("update dbq_tasks set updated_at = updated_at - 660000 where put_off_by is not null");
    const [cause] = await limitedOf(queue);
    expect(cause).toMatchObject({ func: name, fix: { action: { fields: { rate: "9/1m" } } } });
    await takeOffer(queue, cause as Cause);
    expect(await limitedOf(queue)).toEqual([]);
    await worker.stop();
  });

  test("of code: the one that replaces it counts", async () => {
    const { queue, raw } = await queueOnFile();
    const started = deferred();
    const release = deferred();
    const name = uniqueName("limited");
    const run = async () => {
      started.resolve();
      await release.promise;
    };
    const limited = task(name, run, { limit: { concurrency: 1 } });
    const worker = await startedWorker(queue, { concurrency: 1 });
    const ids = await queue.enqueueTasks([[limited], [limited]]);
    await started.promise;
    raw.exec("update dbq_tasks set updated_at = updated_at - 900000 where status = 'pending'");
    const [cause, ...others] = await limitedOf(queue);
    expect(others).toEqual([]);
    await takeOffer(queue, cause as Cause);
    expect(await queue.listLimits()).toMatchObject([{ concurrency: 1 }, { concurrency: 2 }]);
    expect(await limitedOf(queue)).toEqual([]);
    release.resolve();
    for (const id of ids) await queue.awaitTaskCompletion(id);
    await worker.stop();
  });
});

test("a function that asks for a pause is waited for: a higher limit would not help", async () => {
  const { queue, raw } = await queueOnFile();
  const name = uniqueName("throttled");
  const throttled = task(name, async () => {
    throw new ThrottleTask("1h");
  });
  await queue.setLimit({ func: name }, { concurrency: 5 });
  const [first] = await queue.enqueueTasks([[throttled], [throttled]] as const);
  const worker = await startedWorker(queue, { concurrency: 1 });
  await expect.poll(async () => (await queue.getTask(first))?.status, { timeout: 10_000 }).toBe("scheduled");
  await worker.stop();
  raw.exec("update dbq_tasks set updated_at = updated_at - 900000");
  expect((await causesOf(queue)).filter(({ kind }) => kind === "limited")).toMatchObject([
    {
      fix: {
        ...{ command: null, action: null },
        advice: expect.stringMatching(/^wait: its function has asked for a pause until \d{4}-/),
      },
    },
  ]);
});
