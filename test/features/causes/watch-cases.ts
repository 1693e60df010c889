/** What `queue.watchCauses` promises, on any database: by a clock that the test steps, and on which the looks of all watches are seen to end. */
import { describe, expect, onTestFinished, test } from "vitest";
import { TestClock } from "../../../src/base/runtime/clock.ts";
import type { Timer } from "../../../src/base/runtime/timers.ts";
import { type CauseChange, type Queue, QueueClosedError, remoteTask } from "../../../src/index.ts";
import { openQueueAt } from "../../../src/open.ts";
import { deferred } from "../../support/queue.ts";
import { rejection, until } from "../../worker/setup.ts";

const nobody = remoteTask<() => Promise<void>>("nobody");
const second = 1_000;

/** A watch that waits for its next look has one timer. */
class CountingClock extends TestClock {
  waiting = 0;

  override after(ms: number, fn: () => void): Timer {
    this.waiting += 1;
    let isOpen = true;
    const close = () => {
      if (isOpen) this.waiting -= 1;
      isOpen = false;
    };
    const timer = super.after(ms, () => {
      close();
      fn();
    });
    return {
      clear: () => {
        close();
        timer.clear();
      },
    };
  }

  /** Resolves when all of so many watches have looked. */
  async allLooked(watches: number): Promise<void> {
    await until(() => this.waiting === watches);
  }

  async step(watches: number, ms = 10 * second): Promise<void> {
    await this.allLooked(watches);
    this.advance(ms);
    await this.allLooked(watches);
  }
}

/** What a watch has heard of schedules that pile up. */
interface Heard {
  readonly changes: CauseChange[];
  readonly said: string[];
  /** Rejects with what the iteration threw. */
  readonly ended: Promise<void>;
}

/** Iterates until `onChange` throws or returns "break", or the watch ends. */
function listen(
  queue: Queue,
  name: string,
  onChange: (change: CauseChange) => unknown = () => undefined,
  signal?: AbortSignal,
): Heard {
  const [changes, said] = [[] as CauseChange[], [] as string[]];
  const run = async () => {
    for await (const change of queue.watchCauses({ name, ...(signal ? { signal } : {}) })) {
      if (change.cause.kind !== "piling") continue;
      changes.push(change);
      said.push(`${change.type} ${change.cause.schedule}`);
      if ((await onChange(change)) === "break") break;
    }
  };
  const ended = run();
  ended.catch(() => undefined);
  return { changes, said, ended };
}

/** @param place the address of a new empty database */
export function watchCases(on: string, place: () => Promise<string>): void {
  async function opened() {
    const [clock, url] = [new CountingClock(), await place()];
    const open = async (by: CountingClock = clock) => {
      const queue = await openQueueAt(by, url);
      onTestFinished(() => queue.close());
      return queue;
    };
    const queue = await open();
    await queue.setCauseThresholds({ pilingTasks: 1, unservedAfter: "9h" });
    /** Makes a task of a schedule, which is a cause until the task has ended. */
    const begin = async (schedule: string) => {
      await queue.schedule(schedule, { every: "1h", overlap: "allow" }, nobody);
      const task = await queue.triggerSchedule(schedule);
      return async () => void (await queue.cancelTask(Number(task)));
    };
    return { clock, queue, open, begin };
  }

  describe(`watching causes on ${on}`, () => {
    test("of four watchers one reports each cause once, its end, and anew that it is back; another name hears the same", async () => {
      const { clock, queue, open, begin } = await opened();
      const end = await begin("a");
      const watches = [queue, await open(), await open(), await open()].map((one) => listen(one, "slack"));
      const other = listen(await open(), "pager");
      const all = () => watches.flatMap(({ said }) => said);
      await clock.allLooked(5);
      await until(() => all().length === 1);
      await begin("b");
      await clock.step(5);
      await end();
      for (let looks = 0; looks < 4; looks += 1) await clock.step(5);
      await until(() => all().length === 3);
      await begin("a");
      await clock.step(5);
      await until(() => all().length === 4);
      await clock.step(5);
      const expected = ["began a", "began b", "ended a", "began a"];
      expect(all()).toEqual(expected);
      expect(watches.filter(({ said }) => said.length > 0)).toHaveLength(1);
      await until(() => other.said.length === 4);
      expect(other.said).toEqual(expected);
    });

    test("an absence that is shorter than endedAfter is no end; the cause of an end is the one that began", async () => {
      const { clock, queue, begin } = await opened();
      const end = await begin("a");
      const { said, changes } = listen(queue, "slack");
      await clock.allLooked(1);
      await until(() => said.length === 1);
      await end();
      await clock.step(1);
      await clock.step(1);
      const endAgain = await begin("a");
      await clock.step(1);
      await endAgain();
      await queue.setCauseThresholds({ endedAfter: "15s" });
      await clock.step(1);
      expect(said).toEqual(["began a"]);
      await clock.step(1);
      await until(() => said.length === 2);
      expect(said).toEqual(["began a", "ended a"]);
      expect(changes[1]?.cause).toEqual(changes[0]?.cause);
      expect(changes[1]?.cause).toMatchObject({
        schedule: "a",
        severity: "warning",
        since: expect.any(Date),
      });
    });

    test("a report that an app throws at, or breaks after, is reported again by the next watcher, and then no more", async () => {
      const { clock, queue, open, begin } = await opened();
      await begin("a");
      const lost = new Error("no luck");
      const throwing = listen(queue, "slack", () => {
        throw lost;
      });
      expect(await rejection(throwing.ended)).toBe(lost);
      const breaking = listen(await open(), "slack", () => "break");
      await until(() => breaking.said.length === 1);
      await breaking.ended;
      const next = listen(await open(), "slack");
      await until(() => next.said.length === 1);
      await begin("b");
      await clock.step(1);
      await until(() => next.said.length === 2);
      expect([throwing.said, breaking.said, next.said]).toEqual([
        ["began a"],
        ["began a"],
        ["began a", "began b"],
      ]);
    });

    test("a watcher that stands still loses the lease, and what it says of its report later counts for nothing", async () => {
      const { clock, queue, open, begin } = await opened();
      const still = new CountingClock(clock.now());
      await begin("a");
      const back = deferred();
      const first = listen(await open(still), "slack", () => back.promise);
      await until(() => first.said.length === 1);
      await still.allLooked(1);
      const holding = deferred();
      const later = listen(queue, "slack", () => holding.promise);
      await clock.allLooked(1);
      await clock.step(1, 25 * second);
      expect(later.said).toEqual([]);
      await clock.step(1, 6 * second);
      await until(() => later.said.length === 1);
      back.resolve();
      await still.step(1);
      holding.reject(new Error("the second one has not dealt with it, either"));
      await rejection(later.ended);
      const last = listen(await open(), "slack");
      await until(() => last.said.length === 1);
      expect([first.said, later.said, last.said]).toEqual([["began a"], ["began a"], ["began a"]]);
    });

    test("a watcher whose app does not come back from a report for five minutes lets another one report it", async () => {
      const { clock, queue, open, begin } = await opened();
      await begin("a");
      const back = deferred();
      const hanging = listen(queue, "slack", () => back.promise);
      await until(() => hanging.said.length === 1);
      const other = listen(await open(), "slack");
      // The last one before: the time of the test itself is added to that of the clock.
      for (let looks = 0; looks < 29; looks += 1) await clock.step(2);
      expect(other.said).toEqual([]);
      await clock.step(2);
      await clock.step(2);
      await until(() => other.said.length === 1);
      back.resolve();
      await begin("b");
      await clock.step(2);
      await until(() => other.said.length === 2);
      await clock.step(2);
      expect([hanging.said, other.said]).toEqual([["began a"], ["began a", "began b"]]);
    });

    test("a signal and the queue's close end a watch at once, and leave the lease to the next one", async () => {
      const { clock, queue, open, begin } = await opened();
      const abort = new AbortController();
      const first = listen(queue, "slack", undefined, abort.signal);
      await clock.allLooked(1);
      abort.abort(new Error("enough"));
      expect(await rejection(first.ended)).toBe(abort.signal.reason);
      expect(clock.waiting).toBe(0);
      const closing = await open();
      const later = listen(closing, "slack", () => new Promise(() => undefined));
      await clock.allLooked(1);
      await begin("a");
      await clock.step(1);
      await until(() => later.said.length === 1);
      await closing.close();
      const third = listen(queue, "slack");
      await until(() => third.said.length === 1);
      expect(third.said).toEqual(["began a"]);
      await queue.close();
      expect(await rejection(third.ended)).toBeInstanceOf(QueueClosedError);
      expect(await rejection(listen(await open(), "slack", undefined, abort.signal).ended)).toBe(
        abort.signal.reason,
      );
    });

    test("a signal lets the app finish the report that it has, which is reported to nobody again", async () => {
      const { clock, queue, open, begin } = await opened();
      await begin("a");
      const [abort, back] = [new AbortController(), deferred()];
      const first = listen(queue, "slack", () => back.promise, abort.signal);
      await until(() => first.said.length === 1);
      abort.abort();
      back.resolve();
      await rejection(first.ended);
      const next = listen(await open(), "slack");
      await begin("b");
      await clock.allLooked(1);
      await clock.step(1);
      await until(() => next.said.length > 0);
      expect(next.said).toEqual(["began b"]);
    });

    test("causes with names of any length are told apart", async () => {
      const { clock, queue } = await opened();
      const long = "x".repeat(250);
      const names = ["a", `${long}a`, `${long}b`, "🎉".repeat(127)];
      for (const name of names) await queue.enqueueTask(remoteTask<() => void>(name));
      await queue.setCauseThresholds({ unservedAfter: 1 });
      clock.advance(60 * second);
      const heard: (string | undefined)[] = [];
      for await (const { cause } of queue.watchCauses({ name: "slack" })) {
        if (cause.kind === "unserved") heard.push(cause.func);
        if (heard.length === names.length) break;
      }
      expect(heard.sort()).toEqual([...names].sort());
    });
  });
}
