/** Outcomes that a database refuses, however often they are offered: the task fails, and its slot is free. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { Firing } from "../../src/features/schedules/fire.ts";
import {
  currentTask,
  openQueue,
  type Queue,
  type QueueOptions,
  remoteTask,
  type Task,
  task,
} from "../../src/index.ts";
import { Broker, newDrain } from "../features/drain/broker.ts";
import { ByHand, startedManager, tokenFor, urlOf, version } from "../features/manager/setup.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { allEnded, aroundTurns, ended, next, read, reportsOf, until } from "./setup.ts";
import "../support/fakeable-timers.ts";

/** When the triggers of these tests refuse an update: the result of a completion says so. */
export const isBad = "new.status = 'completed' and new.result like '%bad%'";

export interface Database {
  /** The target of `openQueue`. */
  url: string;
  /** Runs statements as another program does. */
  raw(text: string): Promise<unknown>;
}

export interface Refusal {
  name: string;
  /** A database for one test. @default the one of `Kind` */
  make?: () => Promise<Database>;
  /** Makes the database refuse `result`. @default nothing needs to be done */
  sql?: string;
  /** What the function returns. @default "bad" */
  result?: string;
  options?: QueueOptions;
  /** What the task's error says. */
  says: RegExp;
}

export interface Kind {
  name: string;
  make: () => Promise<Database>;
  refusals: readonly Refusal[];
  /** A trigger `no` before each change to a running task that matches, which fails with `says`. */
  trigger(table: string, event: "insert" | "update", when: string): string;
  /** Drops that trigger. */
  drop(table: string): string;
  synchronous?: true;
}

async function opened({ url }: Database, options: QueueOptions = {}): Promise<Queue> {
  const queue = await openQueue(url, options);
  onTestFinished(() => queue.close());
  return queue;
}

export function refusedCases(kind: Kind): void {
  const { make, trigger, drop } = kind;

  describe(`an outcome that ${kind.name} refuses`, () => {
    test.each(kind.refusals)(
      "$name: the task fails with the reason, and its slot is free",
      async (refusal) => {
        const { result = "bad", sql, options = {}, says } = refusal;
        const database = await (refusal.make ?? make)();
        const queue = await opened(database, options);
        if (sql) await database.raw(sql);
        let runs = 0;
        const hook = deferred<[Task, Error]>();
        const onFailure = (failed: Task, error: unknown) => hook.resolve([failed, error as Error]);
        const refused = task(
          uniqueName(),
          async () => {
            runs += 1;
            return result;
          },
          { onFailure },
        );
        const fine = task(uniqueName(), async (n: number) => n);
        const worker = await startedWorker(queue, { concurrency: 2 });
        const reports = reportsOf(worker);
        const failed = next(worker, "failed");
        // With as many slots as refused tasks, and some of the others in the same batches.
        const bad = await queue.enqueueTasks([[refused], [refused]]);
        const others = await queue.enqueueTasks(Array.from({ length: 10 }, (_, n) => [fine, n] as const));
        expect((await allEnded(queue, others)).map((one) => one.result)).toEqual(others.map((_, n) => n));
        for (const one of await allEnded(queue, bad)) {
          expect(one).toMatchObject({ status: "failed", retryCount: 0, generationId: 3 });
          expect(one.error).toMatchObject({ name: "DatabaseError", code: "DBQ_DATABASE" });
          expect(one.error?.message).toMatch(
            /^the database refuses the outcome of the attempt \(completed\)/,
          );
          expect(one.error?.message).toMatch(says);
          expect(await queue.listAttempts(one.id)).toMatchObject([
            { outcome: "failed", error: { message: one.error?.message } },
          ]);
        }
        expect(await failed).toMatchObject({ status: "failed", error: { name: "DatabaseError" } });
        const [seen, error] = await hook.promise;
        expect([seen.status, error.name]).toEqual(["failed", "DatabaseError"]);
        await worker.idle();
        expect([runs, worker.inflight]).toEqual([2, 0]);
        expect(reports.map(({ where }) => where).sort()).toEqual(
          bad.map((id) => `settling task "${refused.taskName}" (${id})`).sort(),
        );
      },
    );

    test("a task whose row takes no change keeps no slot, is reported once, and ends once the row does", async () => {
      const database = await make();
      const queue = await opened(database);
      const stuck = task(uniqueName(), async (n: number) => n);
      const bad = await queue.enqueueTasks([
        [stuck, 1],
        [stuck, 2],
      ]);
      await database.raw(
        trigger("dbq_tasks", "update", `old.status = 'running' and old.func = '${stuck.taskName}'`),
      );
      let offers = 0;
      aroundTurns(queue, (turn) => (cycle) => {
        if (cycle.outcomes.some(({ id }) => bad.includes(id as never))) offers += 1;
        return turn(cycle);
      });
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"], shouldAdvanceTime: true });
      onTestFinished(() => void vi.useRealTimers());
      const worker = await startedWorker(queue, { concurrency: 2 });
      const reports = reportsOf(worker);
      const fine = task(uniqueName(), async (n: number) => n);
      const others = await queue.enqueueTasks(Array.from({ length: 20 }, (_, n) => [fine, n] as const));
      await allEnded(queue, others);
      await until(() => reports.length === 2);
      expect(reports.map(({ where }) => where).join()).toContain("its slot is free");
      expect(worker.inflight).toBe(0);
      for (const id of bad)
        expect(await read(queue, id)).toMatchObject({ status: "running", generationId: 2 });
      const before = offers;
      expect(before).toBeLessThanOrEqual(4);
      // Elsewhere the timers of the driver would run out, too.
      if (!kind.synchronous) return;
      vi.advanceTimersByTime(60_000);
      await until(() => offers >= before + 2);
      expect(reports).toHaveLength(2);
      await database.raw(drop("dbq_tasks"));
      vi.advanceTimersByTime(60_000);
      for (const one of await allEnded(queue, bad))
        expect(one).toMatchObject({ status: "completed", generationId: 3 });
    });

    test("complete() in the function's own transaction: the task fails without another attempt", async () => {
      const database = await make();
      const queue = await opened(database);
      await database.raw(trigger("dbq_tasks", "update", "new.status = 'completed'"));
      let runs = 0;
      const completes = task(uniqueName(), async () => {
        runs += 1;
        await queue.transaction((tx) => currentTask().within(tx).complete("done"));
      });
      await startedWorker(queue);
      const failed = await ended(queue, await queue.enqueueTask(completes));
      expect(failed).toMatchObject({ status: "failed", retryCount: 0 });
      expect(failed.error?.message).toContain("the row says no");
      expect(runs).toBe(1);
    });

    test("progress and lines of one task that are refused stop those of no other task", async () => {
      const database = await make();
      const queue = await opened(database);
      await database.raw(trigger("dbq_task_logs", "insert", "new.message = 'bad'"));
      const both = deferred();
      let running = 0;
      const tells = task(uniqueName(), async (text: string) => {
        running += 1;
        if (running === 3) both.resolve();
        await both.promise;
        currentTask().log(text);
        currentTask().log("last");
      });
      const worker = await startedWorker(queue);
      const reports = reportsOf(worker);
      const ids = await queue.enqueueTasks(["bad", "good", "other"].map((text) => [tells, text] as const));
      await allEnded(queue, ids);
      const [bad, good, other] = ids;
      const linesOf = async (id: number) => (await queue.listLogs(id)).map(({ message }) => message);
      expect(await linesOf(bad as number)).toEqual(["last"]);
      expect(await linesOf(good as number)).toEqual(["good", "last"]);
      expect(await linesOf(other as number)).toEqual(["other", "last"]);
      expect(reports.map(({ where }) => where)).toEqual([`writing log lines of task ${bad}`]);
    });

    test("a schedule whose task is refused is named, and the others fire", async () => {
      const database = await make();
      const queue = await opened(database);
      const [bad, good] = [uniqueName("bad"), uniqueName("good")];
      await queue.schedule("a-bad", { every: "1h" }, remoteTask(bad));
      await queue.schedule("b-good", { every: "1h" }, remoteTask(good));
      const { schedules } = internalsOf(queue).store;
      for (const name of ["a-bad", "b-good"])
        await schedules.change(name, (row, now) => (row ? { row: { ...row, nextAt: now - 1_000 } } : {}));
      await database.raw(trigger("dbq_tasks", "insert", `new.func = '${bad}'`));
      const reports: string[] = [];
      const report = (error: unknown, where: string) => reports.push(`${where}: ${(error as Error).message}`);
      const firing = new Firing(schedules, { workerId: "w", onWork: () => undefined, report });
      while ((await firing.run()) === 0);
      expect((await queue.listTasks()).map(({ func }) => func)).toEqual([good]);
      expect(reports).toHaveLength(1);
      expect(reports[0]).toMatch(
        /^firing schedule "a-bad", whose slot is tried again in a minute: .*the row says no/,
      );
    });

    test("schedules whose rows take no change are passed over for a minute, and the one behind them fires", async () => {
      const database = await make();
      const queue = await opened(database);
      const names = Array.from({ length: 120 }, (_, i) => `bad-${String(i).padStart(3, "0")}`);
      const good = uniqueName("good");
      const every = { every: "1h" };
      await queue.schedules([
        ...names.map((name) => [name, every, remoteTask("never")] as const),
        ["good", every, remoteTask(good)],
      ]);
      const { schedules } = internalsOf(queue).store;
      for (const name of [...names, "good"])
        await schedules.change(name, (row, now) => (row ? { row: { ...row, nextAt: now - 1_000 } } : {}));
      await database.raw(trigger("dbq_schedules", "update", "old.name like 'bad-%'"));
      let reports = 0;
      const report = () => {
        reports += 1;
      };
      const firing = new Firing(schedules, { workerId: "w", onWork: () => undefined, report });
      for (let looks = 0; looks < 4; looks += 1) await firing.run();
      expect((await queue.listTasks()).map(({ func }) => func)).toEqual([good]);
      // Each is tried, and put off, once.
      expect(reports).toBe(2 * names.length);
      expect(await firing.run()).toBeGreaterThan(1_000);
    });

    test("a drain fails the task whose outcome is refused, sends it once, and goes on", async () => {
      const database = await make();
      const queue = await opened(database);
      await database.raw(trigger("dbq_tasks", "update", "new.status = 'completed' and new.func = 'bad'"));
      const broker = new Broker();
      const { carrier, errors } = newDrain(queue, { queueName: "mail", to: broker });
      const inMail = { queueName: "mail" };
      const ids = await queue.enqueueTasks(
        ["bad", "good", "good"].map((name) => [remoteTask(name, inMail)] as const),
      );
      await carrier.start();
      const all = await allEnded(queue, ids);
      expect(all.map(({ status }) => status)).toEqual(["failed", "completed", "completed"]);
      expect(all[0]?.error?.message).toContain("the row says no");
      expect(broker.sends.flat().length).toBe(3);
      expect(errors).toHaveLength(1);
    });

    test("a Manager fails an agent's task whose outcome is refused, and settles the others", async () => {
      const database = await make();
      const queue = await opened(database);
      const [bad, good] = [uniqueName("bad"), uniqueName("good")];
      await database.raw(trigger("dbq_tasks", "update", `new.status = 'completed' and new.func = '${bad}'`));
      const manager = await startedManager(queue);
      const agent = new ByHand(urlOf(manager), await tokenFor(queue, [bad, good]));
      const ids = await queue.enqueueTasks([[remoteTask(bad)], [remoteTask(good)]]);
      const { body } = await agent.claim([bad, good]);
      const ends = body.tasks.map((one: object) => ({
        ...version(one as never),
        status: "completed",
        result: 1,
      }));
      const answer = await agent.settle(...ends);
      expect(answer).toMatchObject({ status: 200, body: { settled: [ids[1]], lost: [ids[0]] } });
      const [failed, completed] = await allEnded(queue, ids);
      expect(failed).toMatchObject({ status: "failed", retryCount: 0 });
      expect(completed).toMatchObject({ status: "completed", result: 1 });
    });

    test("a failure whose record dbq_attempts refuses is stored without it", async () => {
      const database = await make();
      const queue = await opened(database);
      await database.raw(trigger("dbq_attempts", "insert", "new.error_message = 'not to be told'"));
      const fails = task(
        uniqueName(),
        async () => {
          throw new Error("not to be told");
        },
        { maxRetries: 1, backoff: () => 1 },
      );
      const worker = await startedWorker(queue);
      reportsOf(worker);
      const failed = await ended(queue, await queue.enqueueTask(fails));
      expect(failed).toMatchObject({ status: "failed", retryCount: 1, error: { message: "not to be told" } });
      expect(await queue.listAttempts(failed.id)).toEqual([]);
    });

    test("a refused outcome that its store reports is settled by no second attempt", async () => {
      const database = await make();
      const queue = await opened(database);
      await database.raw(trigger("dbq_tasks", "update", "new.status = 'completed'"));
      const { store } = internalsOf(queue);
      const id = await queue.enqueueTask(task(uniqueName(), async () => undefined));
      const claim = {
        workerId: "w",
        queueNames: ["default"],
        funcs: [(await read(queue, id)).func],
        limit: 1,
      };
      await store.register({
        ...{ id: "w", queueNames: ["default"], concurrency: 1, lease: 60_000, host: "h" },
        ...{ bootId: null, pidNamespace: null, pid: 0, processStart: null },
      });
      const { claimed } = await store.settleAndClaim({ outcomes: [], claim });
      const outcomes = claimed.map((one) => ({ ...one, kind: "completed" as const, result: "1" }));
      const { settled, refused } = await store.settleAndClaim({ outcomes, claim: undefined });
      expect(settled).toEqual([true]);
      expect([...(refused ?? [])]).toMatchObject([[outcomes[0], { stored: { kind: "failed" } }]]);
      expect((await store.settleAndClaim({ outcomes, claim: undefined })).settled).toEqual([false]);
      expect(await read(queue, id)).toMatchObject({ status: "failed" });
    });
  });
}
