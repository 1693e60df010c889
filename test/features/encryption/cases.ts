/** What encryption promises on each database. */
import { expect, test } from "vitest";
import { inspectQueue } from "../../../src/features/inspect/health.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { child, step, waitForEvent } from "../../../src/features/workflows/steps.ts";
import {
  currentTask,
  type EncryptionOptions,
  getRunBeginning,
  type Queue,
  remoteTask,
  type Task,
  task,
} from "../../../src/index.ts";
import { deferred, startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { ageTasks, columnsWith, type MakeRaw, newKey, type Raw } from "./support.ts";

const soon = { timeout: "20s" } as const;

/** Letters alone: what is made of a message leaves numbers out. */
const marker = "ZebraSecretWord";

const openWith = (raw: Raw, encryption?: EncryptionOptions): Promise<Queue> =>
  temporaryQueue(encryption ? { encryption } : {}, raw.target);

const echo = task(uniqueName("echo"), async (text: string) => `${text}!`);
const fails = task(
  uniqueName("fails"),
  async (text: string) => {
    currentTask().log(`log ${text}`);
    throw new Error(`message ${text}`, { cause: new Error(`cause ${text}`) });
  },
  { maxRetries: 1, backoff: () => 1 },
);
const joined = task(uniqueName("joined"), async (...texts: unknown[]) => texts.join("+"));
const nobody = remoteTask<(text: string) => Promise<void>>("nobody");
const gathered = task(uniqueName("gathered"), async () => {
  const results: unknown[] = [];
  for await (const one of currentTask().group.results()) results.push(one);
  return results;
});
const flow = task(uniqueName("flow"), async (text: string) => {
  const first = await step("first", () => `step ${text}`);
  const caught = await step("second", () => {
    throw new Error(`in a step ${text}`);
  }).catch((error: Error) => error.message);
  const from = await child(echo, `child ${text}`);
  const payload = await waitForEvent<string>(`event-of-${currentTask().id}`);
  return [first, caught, from, payload];
});

/** Enqueues whatever carries a value of the app's. */
async function enqueueAll(queue: Queue) {
  return {
    one: await queue.enqueueTask(echo, marker),
    many: await queue.enqueueTasks([
      [echo, marker],
      [echo.with({ uniqueKey: uniqueName("key") }), marker],
    ]),
    later: await queue.enqueueTask(joined.with({ delay: "1h", kwargs: { a: marker } }), marker),
    failing: await queue.enqueueTask(fails, marker),
    inside: await queue.transaction((_tx, q) => q.enqueueTask(echo, marker)),
    chain: await queue.enqueueChain([
      [echo, marker],
      [joined, `second ${marker}`],
      [joined.with({ kwargs: { x: marker } })],
    ]),
    group: await queue.enqueueGroup([[echo, marker]], { then: gathered }),
    flowing: await queue.enqueueTask(flow, marker),
    scheduled: await queue
      .schedule("nightly", { cron: "0 3 * * *" }, echo, marker)
      .then(() => queue.triggerSchedule("nightly")),
  };
}

/** Runs all of that, and sees that each value has come through. */
async function runAll(queue: Queue, all: Awaited<ReturnType<typeof enqueueAll>>): Promise<void> {
  await queue.emitEvent(`event-of-${all.flowing}`, marker);
  const resultOf = (id: number) => queue.awaitTaskResult(id, soon);
  for (const id of [all.one, ...all.many, all.inside, all.scheduled])
    expect(await resultOf(id)).toBe(`${marker}!`);
  expect(await resultOf(all.chain.ids.at(-1) as number)).toBe(`second ${marker}+${marker}!+[object Object]`);
  expect(JSON.stringify(await resultOf(all.group.thenId as number))).toContain(`${marker}!`);
  expect(await resultOf(all.flowing)).toEqual([
    `step ${marker}`,
    `in a step ${marker}`,
    `child ${marker}!`,
    marker,
  ]);
  const failed = await queue.awaitTaskCompletion(all.failing, soon);
  const error = { message: `message ${marker}`, cause: { message: `cause ${marker}` } };
  expect(failed.error).toMatchObject(error);
  const attempts = await queue.listAttempts(all.failing);
  expect(attempts).toMatchObject([{ error }, { error }]);
  expect(attempts[0]?.error?.stack).toContain(marker);
  expect((await queue.listLogs(all.failing)).map(({ message }) => message)).toContain(`log ${marker}`);
  expect(await queue.getSchedule("nightly")).toMatchObject({ args: [marker], problem: null });
  expect(await queue.getTask(all.later)).toMatchObject({ args: [marker], kwargs: { a: marker } });
}

/** The text of a column of one row. */
async function textOf(raw: Raw, table: string, column: string, where: string): Promise<string> {
  const [[value] = []] = await raw.query(`select ${column} from ${table} where ${where}`);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A statement after which the database refuses each result, and repeats what it can of it. */
function refusesResults({ target, quote }: Raw): string {
  if (target.startsWith("postgres"))
    return "alter table dbq_tasks add constraint no_result check (result is null)"; // its error has the row as its detail
  const trigger = "create trigger no_result before update on dbq_tasks";
  return quote === "`"
    ? `${trigger} for each row begin declare why varchar(120) default left(new.result, 100); if new.result is not null then signal sqlstate '45000' set message_text = why; end if; end`
    : `${trigger} when new.result is not null begin select raise(abort, 'no result'); end`;
}

const set = (raw: Raw, id: number, column: string, text: string) =>
  raw.query(`update dbq_tasks set ${column} = '${text}' where id = ${id}`);

async function failureOf(queue: Queue, id: number): Promise<Task> {
  return await queue.awaitTaskCompletion(id, soon);
}

export function encryptionCases(make: MakeRaw): void {
  test("nothing that an app passes is readable in any column of any table, and all of it comes through", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    const all = await enqueueAll(queue);
    expect(await columnsWith(raw, marker)).toEqual([]);
    const worker = await startedWorker(queue);
    await runAll(queue, all);
    await worker.stop();
    expect(await columnsWith(raw, marker)).toEqual([]);
    const sealed = [
      ...["dbq_tasks.args", "dbq_tasks.kwargs", "dbq_tasks.result", "dbq_tasks.error"],
      ...["dbq_attempts.error_message", "dbq_attempts.error_stack", "dbq_attempts.error_cause"],
      ...["dbq_task_logs.message", "dbq_schedules.args", "dbq_failures.message"],
      ...["dbq_steps.value", "dbq_steps.error", "dbq_events.payload"],
    ];
    expect(new Set(await columnsWith(raw, "dbq:sealed"))).toEqual(new Set(sealed));
    if (raw.bytes) expect(raw.bytes().includes(marker)).toBe(false);
  });

  test("the same without the option is in clear, so that the test above can see it", async () => {
    const raw = await make();
    const queue = await openWith(raw);
    const all = await enqueueAll(queue);
    await startedWorker(queue);
    await runAll(queue, all);
    expect(await columnsWith(raw, "dbq:sealed")).toEqual([]);
    expect((await columnsWith(raw, marker)).length).toBeGreaterThan(11);
  });

  test("kinds of failures are found by their tasks, and are others for each key", async () => {
    const raw = await make();
    const [first, second] = [newKey("a"), newKey("b")];
    const kindsWith = async (...keys: [typeof first, ...(typeof first)[]]) => {
      const queue = await openWith(raw, { keys });
      const worker = await startedWorker(queue);
      for (const n of [1, 2]) await failureOf(queue, await queue.enqueueTask(fails, `${marker} ${n}`));
      await worker.stop();
      return { queue, kinds: await queue.listFailures() };
    };
    const { queue, kinds } = await kindsWith(first);
    const message = `message ${marker} <n>`;
    expect(kinds).toMatchObject([{ func: fails.taskName, errorName: "Error", message, count: 4, open: 2 }]);
    const failure = kinds[0]?.id as string;
    expect((await queue.listTasks({ failure })).map((one) => one.status)).toEqual(["failed", "failed"]);
    expect((await queue.listAttempts(kinds[0]?.sample as number)).map((one) => one.failure)).toEqual([
      failure,
      failure,
    ]);
    const later = await kindsWith(second, first);
    expect(later.kinds.map((kind) => kind.message)).toEqual([message, message]);
    expect(new Set(later.kinds.map(({ id }) => id)).size).toBe(2);
    const blind = await openWith(raw, { keys: [second] });
    expect((await blind.listFailures()).map((kind) => kind.message).sort()).toEqual(["(encrypted)", message]);
    expect(await columnsWith(raw, marker)).toEqual([]);
    expect(await blind.retryTasks({ failure })).toMatchObject({ changed: 2 });
  });

  test("arguments of another row or function, and changed ones, fail their task for good", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    const ids = await queue.enqueueTasks(Array.from({ length: 7 }, () => [echo, marker] as const));
    const [source, swapped, flipped, cut, kwargs, func, good] = ids as number[];
    const argsOf = (id: number | undefined) => textOf(raw, "dbq_tasks", "args", `id = ${id}`);
    await set(raw, swapped as number, "args", await argsOf(source));
    const text = await argsOf(flipped);
    await set(
      raw,
      flipped as number,
      "args",
      `${text.slice(0, 40)}${text[40] === "A" ? "B" : "A"}${text.slice(41)}`,
    );
    await set(raw, cut as number, "args", `${text.slice(0, -12)}"}`);
    await set(raw, kwargs as number, "kwargs", '{"admin":true}');
    await set(raw, func as number, "func", joined.taskName);
    await startedWorker(queue);
    for (const id of [swapped, flipped, cut, kwargs, func])
      expect(await failureOf(queue, id as number)).toMatchObject({
        status: "failed",
        retryCount: 0,
        error: { name: "DecryptionFailedError", code: "DBQ_DECRYPTION_FAILED" },
      });
    for (const id of [source, good])
      expect(await queue.awaitTaskResult(id as number, soon)).toBe(`${marker}!`);
  });

  test("a result of another task, or a changed one, is no result", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    await startedWorker(queue);
    const [first, second] = (await queue.enqueueTasks([
      [echo, "1"],
      [echo, "2"],
    ])) as [number, number];
    expect(await queue.awaitTaskResult(first, soon)).toBe("1!");
    expect(await queue.awaitTaskResult(second, soon)).toBe("2!");
    await set(raw, second, "result", await textOf(raw, "dbq_tasks", "result", `id = ${first}`));
    await expect(queue.awaitTaskResult(second, soon)).rejects.toThrow(
      expect.objectContaining({ code: "DBQ_DECRYPTION_FAILED" }),
    );
    // A list shows the others all the same.
    expect((await queue.listTasks()).map(({ id }) => id)).toEqual([second, first]);
  });

  test("a chain gives a task the result of the one before, and no other", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    const other = await queue.enqueueTask(echo, "other");
    const { ids } = await queue.enqueueChain([
      [echo, marker],
      [joined, "a"],
    ]);
    const [first, second] = ids as unknown as [number, number];
    const blocked = await startedWorker(queue, { tasks: [echo] });
    await queue.awaitTaskResult(first, soon);
    await queue.awaitTaskResult(other, soon);
    await blocked.stop();
    const args = await textOf(raw, "dbq_tasks", "args", `id = ${second}`);
    const [own, result] = JSON.parse(args) as [object, object];
    expect([own, result].map((one) => Object.keys(one))).toEqual([["dbq:sealed"], ["dbq:sealed"]]);
    const foreign = await textOf(raw, "dbq_tasks", "result", `id = ${other}`);
    await set(raw, second, "args", `[${JSON.stringify(own)},${foreign}]`);
    await startedWorker(queue);
    expect((await failureOf(queue, second)).error?.code).toBe("DBQ_DECRYPTION_FAILED");
    await set(raw, second, "args", args);
    await queue.retryTask(second);
    expect(await queue.awaitTaskResult(second, soon)).toBe(`a+${marker}!`);
  });

  test("a step of another task fails the task that would use it", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    let calls = 0;
    const stepping = task(uniqueName("stepping"), async (text: string) => {
      const value = await step("work", () => text);
      calls += 1;
      if (calls <= 2) throw new Error("once more");
      return value;
    });
    const ids = (await queue.enqueueTasks([
      [stepping.with({ maxRetries: 0 }), "one"],
      [stepping.with({ maxRetries: 0 }), "two"],
    ])) as [number, number];
    await startedWorker(queue);
    for (const id of ids) await queue.awaitTaskCompletion(id, soon);
    const value = await textOf(raw, "dbq_steps", "value", `task_id = ${ids[0]}`);
    await raw.query(`update dbq_steps set value = '${value}' where task_id = ${ids[1]}`);
    for (const id of ids) await queue.retryTask(id);
    expect(await queue.awaitTaskResult(ids[0], soon)).toBe("one");
    expect((await failureOf(queue, ids[1])).error?.code).toBe("DBQ_DECRYPTION_FAILED");
  });

  test("no catch sees that a step, its error, the result of a child or an event was changed", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    let caught = 0;
    const other = async () => {
      caught += 1;
      await step("the other way", () => undefined);
    };
    const ways = task(
      uniqueName("ways"),
      async (hasEvent: boolean, text: string) => {
        await step("work", () => text).catch(other);
        await step("fails", () => Promise.reject(new Error(text))).catch(async (error: Error) => {
          if (error.message !== text) await other();
        });
        await child(echo, text).catch(other);
        const payload = await waitForEvent(`until-${currentTask().id}`);
        if (hasEvent) await waitForEvent(`before-${currentTask().id}`).catch(other);
        return payload;
      },
      { maxRetries: 2, timeout: "1m" }, // with a timeout, a task that waits leaves its slot at once
    );
    const entries = [false, false, false, true, false].map((has, i) => [ways, has, `${marker}${i}`] as const);
    const ids = (await queue.enqueueTasks(entries)) as number[];
    const parked = await startedWorker(queue);
    for (const id of ids) await queue.emitEvent(`before-${id}`, marker);
    // Before that each has waited for its child.
    for (const id of ids)
      await expect.poll(async () => (await queue.getRun(id))?.waits).toMatchObject([{ kind: "event" }]);
    for (const id of ids) await expect.poll(async () => (await queue.getTask(id))?.status).toBe("waiting");
    await parked.stop();
    const [value, error, result, event, good] = ids as [number, number, number, number, number];
    const change = async (table: string, column: string, row: string) => {
      const text = await textOf(raw, table, column, row);
      const changed = `${text.slice(0, 40)}${text[40] === "A" ? "B" : "A"}${text.slice(41)}`;
      await raw.query(`update ${table} set ${column} = '${changed}' where ${row}`);
    };
    await change("dbq_steps", "value", `task_id = ${value} and name = 'work'`);
    await change("dbq_steps", "error", `task_id = ${error} and name = 'fails'`);
    await change("dbq_tasks", "result", `parent_id = ${result}`);
    await raw.query(
      `update dbq_steps set started_at = null, value = null where task_id = ${result} and child_id is not null`,
    );
    await change("dbq_events", "payload", `name = 'before-${event}'`);
    for (const id of ids) await queue.emitEvent(`until-${id}`, "go on");
    await startedWorker(queue);
    for (const id of [value, error, result, event])
      expect(await failureOf(queue, id)).toMatchObject({
        ...{ status: "failed", retryCount: 0, error: { code: "DBQ_DECRYPTION_FAILED" } },
      });
    expect(await queue.awaitTaskResult(good, soon)).toBe("go on");
    expect(caught).toBe(0);
  });

  test("a value of the app's that looks encrypted or refused is an ordinary value", async () => {
    const raw = await make();
    for (const encryption of [undefined, { keys: [newKey("a")] }]) {
      const queue = await openWith(raw, encryption);
      const same = task(uniqueName("same"), async (...values: unknown[]) => {
        const { kwargs } = currentTask();
        return [await step("same", () => values), await child(last, ...values), kwargs];
      });
      const last = task(uniqueName("last"), async (...values: unknown[]) => values.at(-1));
      const sealed = { "dbq:sealed": "1:a:AAAA" };
      await startedWorker(queue);
      for (const value of [sealed, [sealed], JSON.stringify(sealed), "!dbq:broken:it", "!dbq:clear:it"]) {
        const id = await queue.enqueueTask(same.with({ kwargs: sealed, meta: sealed }), value, value);
        expect(await queue.awaitTaskResult(id, soon)).toEqual([[value, value, sealed], sealed, sealed]);
        expect(await queue.getTask(id)).toMatchObject({ args: [value, value], kwargs: sealed, meta: sealed });
        const alone = await queue.enqueueTask(last, value);
        expect(await queue.awaitTaskResult(alone, soon)).toEqual(value);
        const { ids } = await queue.enqueueChain([[last, value], [last]]);
        expect(await queue.awaitTaskResult(ids[1] as number, soon)).toEqual(value);
      }
      await queue.close();
    }
  });

  test("a result that the database refuses is not in its reason, and its failures are of one kind", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    await raw.query(refusesResults(raw));
    const id = await queue.enqueueTask(echo, marker);
    const worker = await startedWorker(queue);
    const failed = await queue.awaitTaskCompletion(id, soon);
    await worker.stop();
    expect(failed).toMatchObject({ status: "failed", error: { name: "DatabaseError" } });
    expect(failed.error?.message).toContain("the database refuses the outcome of the attempt (completed)");
    expect(await columnsWith(raw, marker)).toEqual([]);
    expect(await queue.listFailures()).toMatchObject([
      { errorName: "DatabaseError", count: 1, open: 1, sample: id },
    ]);
  });

  test("a worker without the key leaves tasks alone, uncharged, and doctor says which key is missing", async () => {
    const raw = await make();
    const [a, b] = [newKey("a"), newKey("b")];
    const keyed = await openWith(raw, { keys: [a] });
    const id = await keyed.enqueueTask(echo, marker);
    for (const lacking of [await openWith(raw), await openWith(raw, { keys: [b] })]) {
      const worker = await startedWorker(lacking);
      const told = new Promise<unknown>((resolve) => worker.on("error", resolve));
      expect(await told).toMatchObject({ code: "DBQ_KEY_MISSING", keyId: "a" });
      // Meanwhile the worker claims many times.
      for (let i = 0; i < 10; i += 1)
        expect(await lacking.awaitTaskResult(await lacking.enqueueTask(joined, "x"), soon)).toBe("x");
      await worker.stop();
      const task = await keyed.getTask(id);
      expect(task).toMatchObject({ status: "pending", retryCount: 0, error: null, args: [marker] });
      // Claimed and handed back once by each worker: it is no loop.
      expect(task?.generationId).toBeLessThanOrEqual(5);
      const warnings = (await lacking.diagnose()).filter(({ name }) => name === "encryption keys");
      expect(warnings).toMatchObject([{ warning: expect.stringContaining("the key a") }]);
    }
    const facts = (await keyed.diagnose()).filter(({ name }) => name === "encryption keys");
    expect(facts).toMatchObject([{ value: "a, b" }]);
    await startedWorker(keyed);
    expect(await keyed.awaitTaskResult(id, soon)).toBe(`${marker}!`);
    const lacking = await openWith(raw);
    await expect(lacking.awaitTaskResult(id, soon)).rejects.toThrow(
      expect.objectContaining({ code: "DBQ_KEY_MISSING" }),
    );
  });

  test("a worker without the key leaves schedules to one that has it, and pausing without the key fires nothing", async () => {
    const raw = await make();
    const keyed = await openWith(raw, { keys: [newKey("a")] });
    const lacking = await openWith(raw);
    await keyed.schedule("secret", { every: "1s" }, echo, marker);
    await keyed.schedule("yearly", { cron: "0 0 1 1 *" }, echo, marker);
    await lacking.pauseSchedule("yearly");
    await lacking.resumeSchedule("yearly");
    const first = await startedWorker(lacking, { pollInterval: 50 });
    const told = new Promise<unknown>((resolve) => first.on("error", resolve));
    expect(await told).toMatchObject({ code: "DBQ_KEY_MISSING", keyId: "a" });
    expect(await keyed.listTasks()).toEqual([]);
    expect(await lacking.getSchedule("secret")).toMatchObject({ problem: null, nextAt: expect.any(Date) });
    await expect(lacking.triggerSchedule("secret")).rejects.toMatchObject({ code: "DBQ_KEY_MISSING" });
    await startedWorker(keyed, { pollInterval: 50 });
    const done = async () => (await keyed.listTasks({ scheduleName: "secret", status: "completed" })).length;
    await expect.poll(done, { timeout: 20_000 }).toBeGreaterThan(2);
    expect(await keyed.listTasks({ scheduleName: "yearly" })).toEqual([]);
  });

  test("tasks of which the workers lack the key are unserved, and their cause names the key", async () => {
    const raw = await make();
    const keyed = await openWith(raw, { keys: [newKey("2026-11")] });
    const id = await keyed.enqueueTask(echo, marker);
    const lacking = await openWith(raw);
    const worker = await startedWorker(lacking);
    await new Promise<unknown>((resolve) => worker.on("error", resolve));
    const handedBack = expect.objectContaining({ status: "pending", generationId: 3 });
    await expect.poll(() => keyed.getTask(id), { timeout: 20_000 }).toEqual(handedBack);
    // Each minute the worker claims the task and hands it back: what was changed a moment ago has waited for long.
    await ageTasks(raw, "created_at", 300_000);
    await ageTasks(raw, "updated_at", 3_000);
    for (const queue of [keyed, lacking]) {
      const causes = (await queue.listCauses()).filter(({ kind }) => kind === "unserved");
      expect(causes).toMatchObject([{ func: echo.taskName, tasks: 1, fix: { command: null } }]);
      expect(causes[0]?.why).toContain(
        `for 5 min: a live worker of its queue took task ${id}, and left it alone: probably no worker has the key 2026-11, with which it is encrypted`,
      );
      const { unclaimed } = await inspectQueue(queue);
      expect(unclaimed).toMatchObject([{ reason: expect.stringContaining("has the key 2026-11") }]);
    }
    const never = await keyed.enqueueTask(nobody, marker);
    await ageTasks(raw, "updated_at", 300_000);
    const [cause] = (await keyed.listCauses()).filter(({ func }) => func === nobody.taskName);
    expect(cause?.why).toContain("probably none registers the function, or has the key 2026-11 of its tasks");
    await keyed.cancelTask(never);
    await keyed.cancelTask(id);
    expect((await lacking.listCauses()).filter(({ kind }) => kind === "unserved")).toEqual([]);
  });

  test("a key of a known id that is another key is refused", async () => {
    const raw = await make();
    const key = newKey("a");
    await openWith(raw, { keys: [key] });
    await openWith(raw, { keys: [newKey("b"), key] });
    await expect(openWith(raw, { keys: [newKey("a")] })).rejects.toThrow(
      'the key "a" is not the one that has encrypted in this database under this id',
    );
  });

  test("only the functions of the option are encrypted, and rows in clear are read", async () => {
    const raw = await make();
    const plain = await openWith(raw);
    const before = await plain.enqueueTask(echo, "before");
    const queue = await openWith(raw, { keys: [newKey("a")], functions: [echo.taskName] });
    const id = await queue.enqueueTask(echo, marker);
    const clear = await queue.enqueueTask(joined, "Giraffe");
    await startedWorker(queue);
    expect(await queue.awaitTaskResult(before, soon)).toBe("before!");
    expect(await queue.awaitTaskResult(id, soon)).toBe(`${marker}!`);
    expect(await queue.awaitTaskResult(clear, soon)).toBe("Giraffe");
    expect(await columnsWith(raw, marker)).toEqual([]);
    expect(await columnsWith(raw, "Giraffe")).toEqual(["dbq_tasks.args", "dbq_tasks.result"]);
  });

  test("with required, tasks in clear of covered functions fail for good, and others run", async () => {
    const raw = await make();
    const plain = await openWith(raw);
    const [forged, other] = (await plain.enqueueTasks([
      [echo, "forged"],
      [joined, "other"],
    ])) as [number, number];
    const queue = await openWith(raw, {
      keys: [newKey("a")],
      functions: [echo.taskName],
      required: true,
    });
    const id = await queue.enqueueTask(echo, marker);
    await startedWorker(queue);
    expect(await failureOf(queue, forged)).toMatchObject({
      status: "failed",
      error: { code: "DBQ_NOT_ENCRYPTED" },
    });
    expect(await queue.awaitTaskResult(other, soon)).toBe("other");
    expect(await queue.awaitTaskResult(id, soon)).toBe(`${marker}!`);
  });

  test("with required, a task meets again how its children have ended, after it has waited and they are deleted", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")], required: true });
    const bad = task(uniqueName("bad"), () => Promise.reject(new RangeError(marker)), { maxRetries: 0 });
    const late = task(uniqueName("late"), () => 1, { queueName: "nowhere" });
    const parent = task(
      uniqueName("parent"),
      async () => {
        const value = await child(echo, marker);
        const failure = await child(bad).catch((error) => [error.code, error.cause.message]);
        const cancelled = await child(late).catch((error) => error.code);
        return [value, failure, cancelled, await waitForEvent("later")];
      },
      { timeout: "1m" },
    );
    const id = await queue.enqueueTask(parent);
    await startedWorker(queue);
    const patient = { timeout: 20_000 };
    await expect.poll(async () => (await queue.listTasks({ queueName: "nowhere" })).length, patient).toBe(1);
    for (const one of await queue.listTasks({ queueName: "nowhere" })) await queue.cancelTask(one.id);
    await expect.poll(async () => (await queue.getRun(id))?.waits[0]?.kind, patient).toBe("event");
    await expect.poll(async () => (await queue.getTask(id))?.status, patient).toBe("waiting");
    expect(await queue.deleteTasks({ status: ["completed", "failed", "cancelled"] })).toMatchObject({
      changed: 3,
    });
    const stored = await raw.query("select value, error from dbq_steps");
    expect(JSON.stringify(stored)).not.toMatch(/cancelled|failed|Zebra/);
    await queue.emitEvent("later", marker);
    expect(await queue.awaitTaskResult(id, soon)).toEqual([
      ...[`${marker}!`, ["DBQ_TASK_FAILED", marker], "DBQ_TASK_CANCELLED", marker],
    ]);
  });

  test("reencrypt moves everything to the first key while workers run, and then the old key can go", async () => {
    const raw = await make();
    const [a, b] = [newKey("a"), newKey("b")];
    const clear = await openWith(raw);
    const fromClear = await clear.enqueueTask(echo, marker);
    const old = await openWith(raw, { keys: [a] });
    const all = await enqueueAll(old);
    await startedWorker(old);
    await runAll(old, all);
    const held = deferred();
    const begun = deferred();
    const slow = task(uniqueName("slow"), async (text: string) => {
      begun.resolve();
      await held.promise;
      return `${text} at last`;
    });
    const both = await openWith(raw, { keys: [b, a] });
    const running = await old.enqueueTask(slow, marker);
    await startedWorker(both);
    await begun.promise;
    const progress: number[] = [];
    const { changed, skipped } = await both.reencrypt({ onProgress: ({ done }) => progress.push(done) });
    expect([changed > 15, skipped]).toEqual([true, 0]);
    expect(progress).toEqual([...progress].sort((x, y) => x - y));
    expect(await columnsWith(raw, '"1:a:')).toEqual([]);
    expect(await columnsWith(raw, marker)).toEqual([]);
    expect((await columnsWith(raw, '"1:b:')).length).toBeGreaterThan(10);
    expect((await both.reencrypt()).changed).toBe(0);
    held.resolve();
    expect(await both.awaitTaskResult(running, soon)).toBe(`${marker} at last`);
    const fresh = await openWith(raw, { keys: [b] });
    expect((await fresh.diagnose()).filter(({ name }) => name === "encryption keys")).toEqual([
      { name: "encryption keys", value: "b" },
    ]);
    await runAll(fresh, all);
    expect(await fresh.awaitTaskResult(fromClear, soon)).toBe(`${marker}!`);
  });

  test("a reencrypt that was called off goes on where it stopped, and says what it cannot read", async () => {
    const raw = await make();
    const [a, b] = [newKey("a"), newKey("b")];
    const old = await openWith(raw, { keys: [a] });
    const ids = (await old.enqueueTasks(
      Array.from({ length: 230 }, (_, i) => [echo, String(i)] as const),
    )) as number[];
    await set(raw, ids[3] as number, "args", await textOf(raw, "dbq_tasks", "args", `id = ${ids[4]}`));
    const both = await openWith(raw, { keys: [b, a] });
    const stop = new AbortController();
    const aborted = both.reencrypt({
      signal: stop.signal,
      onProgress: () => stop.abort(new Error("enough")),
    });
    await expect(aborted).rejects.toThrow("enough");
    expect(await both.reencrypt({ limit: 50 })).toEqual({ changed: 50, skipped: 1 });
    expect(await both.reencrypt()).toEqual({ changed: 80, skipped: 1 });
    // What could not be read may still need the old key.
    expect((await both.diagnose()).find(({ name }) => name === "encryption keys")?.value).toBe("a, b");
    expect(
      (await openWith(raw, { keys: [b] }).then((queue) => queue.getTask(ids[229] as number)))?.args,
    ).toEqual(["229"]);
  });

  test("chains whose links wait are rotated, and give their results under the new key", async () => {
    const raw = await make();
    const [a, b] = [newKey("a"), newKey("b")];
    const old = await openWith(raw, { keys: [a] });
    const { ids } = await old.enqueueChain([
      [echo, marker],
      [joined, "x"],
      [joined, "y"],
    ]);
    const both = await openWith(raw, { keys: [b, a] });
    expect(await both.reencrypt()).toEqual({ changed: 3, skipped: 0 });
    const fresh = await openWith(raw, { keys: [b] });
    await startedWorker(fresh);
    expect(await fresh.awaitTaskResult(ids[2] as number, soon)).toBe(`y+x+${marker}!`);
  });

  test("lists show the beginnings of long encrypted texts, and a search finds in them", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    const id = await queue.enqueueTask(echo, `${marker} ${"x".repeat(10_000)}`);
    const { look } = internalsOf(queue).store;
    const [listed] = await look.list({}, 10, undefined, 100);
    expect(listed).toMatchObject({ id, args: `["${marker} ${"x".repeat(100 - marker.length - 3)}` });
    expect(listed?.cut).toEqual({ args: marker.length + 10_000 + 5 });
    const [found] = await look.texts({}, 1_000, { after: undefined, from: undefined });
    expect(found?.text).toContain(marker);
  });

  test("a run for a page shows the beginnings of long encrypted values, and reads no others in part", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    const stepping = task(uniqueName("stepping"), async () => {
      await step("long", () => `${marker} ${"x".repeat(10_000)}`);
      await step("short", () => marker);
    });
    await startedWorker(queue);
    const id = await queue.enqueueTask(stepping);
    await queue.awaitTaskCompletion(id, soon);
    const run = await getRunBeginning(queue, id);
    expect(run?.steps).toMatchObject([
      {
        value: `"${marker} ${"x".repeat(2_000 - marker.length - 2)}`,
        cut: { value: marker.length + 10_003 },
      },
      { value: marker },
    ]);
    expect(run?.steps[1]).not.toHaveProperty("cut");
    const blind = await openWith(raw);
    expect(JSON.stringify(await getRunBeginning(blind, id))).not.toContain(marker);
  });

  test("changed arguments of a waiting task are encrypted, and the unique key's holder is replaced by encrypted ones", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    const id = await queue.enqueueTask(echo.with({ delay: "1h" }), "before");
    await queue.updateTask(id, { args: [marker], waitUntil: null });
    const keyed = echo.with({ delay: "1h", uniqueKey: uniqueName("key"), onDuplicate: "replace" });
    const first = await queue.enqueueTask(keyed, "first");
    expect(await queue.enqueueTask(keyed, `${marker} again`)).toBe(first);
    expect(await columnsWith(raw, marker)).toEqual([]);
    expect((await queue.getTask(first))?.args).toEqual([`${marker} again`]);
    await startedWorker(queue);
    expect(await queue.awaitTaskResult(id, soon)).toBe(`${marker}!`);
  });

  test("an edit is refused that would have to encrypt anew what it cannot read", async () => {
    const raw = await make();
    const [old, next] = [newKey("a"), newKey("b")];
    const before = await openWith(raw, { keys: [old] });
    const waits = joined.with({ delay: "1h", kwargs: { b: marker } });
    const id = await before.enqueueTask(waits, "first");
    const other = await before.enqueueTask(waits, "other");
    const kept = await before.getTask(id);
    const without = await openWith(raw, { keys: [next] });
    for (const changes of [{ args: ["second"] }, { kwargs: { b: "c" } }])
      await expect(without.updateTask(id, changes)).rejects.toMatchObject({
        code: "DBQ_KEY_MISSING",
        keyId: "a",
      });
    expect(await before.getTask(id)).toEqual(kept);
    // All of it is new, or none of it.
    await without.updateTask(id, { args: ["second"], kwargs: {}, priority: 9 });
    expect((await without.getTask(id))?.args).toEqual(["second"]);
    const kwargs = await textOf(raw, "dbq_tasks", "kwargs", `id = ${other}`);
    await raw.query(
      `update dbq_tasks set kwargs = '${kwargs.replace(/.{9}$/, 'AAAA=="}')}' where id = ${other}`,
    );
    await expect(before.updateTask(other, { args: ["x"] })).rejects.toMatchObject({
      code: "DBQ_DECRYPTION_FAILED",
    });
  });

  test("two edits at a time, of arguments and of kwargs, are both kept", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    const id = await queue.enqueueTask(joined.with({ delay: "1h", kwargs: { b: "before" } }), "before");
    await Promise.all([
      queue.updateTask(id, { args: ["args"] }),
      queue.updateTask(id, { kwargs: { b: "kwargs" } }),
    ]);
    expect(await queue.getTask(id)).toMatchObject({ args: ["args"], kwargs: { b: "kwargs" } });
  });

  test("a schedule whose arguments were changed makes no task, and says why", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    await queue.schedule("one", { cron: "0 3 * * *" }, echo, "1");
    await queue.schedule("two", { cron: "0 3 * * *" }, echo, "2");
    const args = await textOf(raw, "dbq_schedules", "args", "name = 'one'");
    await raw.query(`update dbq_schedules set args = '${args}' where name = 'two'`);
    expect((await queue.getSchedule("two"))?.problem).toContain("was changed, or copied");
    // The same definition again writes the arguments anew.
    await queue.schedule("two", { cron: "0 3 * * *" }, echo, "2");
    expect(await queue.getSchedule("two")).toMatchObject({ problem: null, args: ["2"] });
  });

  test("the error of a task that undoes its steps is encrypted, and how it is to end is not", async () => {
    const raw = await make();
    const queue = await openWith(raw, { keys: [newKey("a")] });
    let banks = 0;
    const saga = task(
      uniqueName("saga"),
      async (text: string) => {
        const undo = () => {
          banks += 1;
          if (banks === 1) throw new Error(`no bank for ${text}`);
        };
        await step("charge", () => `charged ${text}`, { undo: { run: undo, maxRetries: 0 } });
        throw new Error(`out of stock for ${text}`);
      },
      { maxRetries: 0 },
    );
    const id = await queue.enqueueTask(saga, marker);
    await startedWorker(queue);
    const message = `out of stock for ${marker}`;
    const undo = [{ step: "charge", status: "failed", error: { message: `no bank for ${marker}` } }];
    expect(await failureOf(queue, id)).toMatchObject({ status: "failed", error: { message, undo } });
    expect(await textOf(raw, "dbq_tasks", "error", `id = ${id}`)).toMatch(
      /^\{"ending":"failed","dbq:sealed":/,
    );
    expect(await columnsWith(raw, marker)).toEqual([]);
    expect(await columnsWith(raw, "dbq:sealed")).toContain("dbq_steps.undo_error");
    await queue.retryTask(id, { undo: true });
    const ended = await failureOf(queue, id);
    expect(ended).toMatchObject({ status: "failed", error: { message } });
    expect(ended.error?.undo).toBeUndefined();
    expect(banks).toBe(2);
  });

  test("a link behind an encrypted one is encrypted too; behind one that is not, none can be required to be", async () => {
    const raw = await make();
    const keys = [newKey("a")];
    const queue = await openWith(raw, { keys, functions: [echo.taskName] });
    const { ids } = await queue.enqueueChain([
      [echo, marker],
      [joined, `behind ${marker}`],
    ]);
    expect(await columnsWith(raw, marker)).toEqual([]);
    const strict = await openWith(raw, { keys, functions: [echo.taskName], required: true });
    const mixed = strict.enqueueChain([
      [joined, "x"],
      [echo, "y"],
    ]);
    await expect(mixed).rejects.toThrow(/requires encrypted arguments.*add it to encryption\.functions/);
    await startedWorker(queue);
    expect(await queue.awaitTaskResult(ids[1] as number, soon)).toBe(`behind ${marker}+${marker}!`);
  });
}
