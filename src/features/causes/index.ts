/** Causes: what is wrong with a queue now, worst first, and what repairs it; and what begins and ends. */
import type { PendingTasks } from "../../base/tasks/pending.ts";
import type { Diagnosis } from "../../store.ts";
import type { Feature } from "../../worker/feature.ts";
import type { BriefLook } from "../inspect/methods.ts";
import { limitInfoOf } from "../operate/pauses.ts";
import { internalsOf, type Queue, requestsOf } from "../queue.ts";
import { attemptsOf, type FunctionStats } from "../stats/methods.ts";
import type { Level, StartedTask } from "./contract.ts";
import type { Facts } from "./facts.ts";
import { causesIn } from "./find.ts";
import type { CauseMethods } from "./methods.ts";
import { setThresholds, thresholdsIn, thresholdsOf } from "./thresholds.ts";
import { depthMargin, mayStarve } from "./waiting.ts";
import { CauseWatches } from "./watch.ts";

/** Rows and levels that are looked at: 10,000 rows in about 20 ms. */
const most = { running: 5_000, crashed: 2_000, piled: 10_000, ended: 2_000, next: 5_000, levels: 10 };

/**
 * Milliseconds for which a look takes facts about the database, and the usual times of functions, from an earlier look. They change
 * slowly, and take long to read.
 */
const slowAge = 10_000;

/** Facts that a look reads anew only when they are older than `slowAge`. `now` is the time of that look, in milliseconds since 1970. */
interface Slow {
  database: (now: number) => Promise<Diagnosis[]>;
  usual: (now: number) => Promise<FunctionStats[]>;
}

export function causes(queue: Queue): Feature {
  const { store } = internalsOf(queue);
  const slow: Slow = {
    database: keptFor(slowAge, () => queue.diagnose()),
    usual: keptFor(slowAge, () => queue.functionStats()),
  };
  const watches = new CauseWatches(queue, async () => (await thresholdsOf(store.causes)).endedAfter);
  const iterators: Pick<CauseMethods, "watchCauses"> = { watchCauses: (options) => watches.watch(options) };
  const methods: Omit<CauseMethods, "watchCauses"> = {
    listCauses: async () => causesIn(await factsOf(queue, slow)),
    causeThresholds: () => thresholdsOf(requestsOf(queue).causes),
    setCauseThresholds: (changes) => setThresholds(store.causes, changes),
  };
  const causesOf = async (look: BriefLook) => causesIn(await factsOf(queue, slow, look));
  return { methods, iterators, shared: { causesOf } };
}

/** One query after another: a look takes one connection of the queue's pool, not all. */
async function factsOf(queue: Queue, slow: Slow, look?: BriefLook): Promise<Facts> {
  const { shared } = internalsOf(queue);
  const { causes, stats } = requestsOf(queue);
  // This process's clock may be apart from the one that has written since when something is paused.
  const { now, thresholds: stored } = await causes.stored();
  const thresholds = thresholdsIn(stored);
  const { health, pending, database: known, limits: states } = look ?? (await shared.briefLook());
  const limits = states.map(limitInfoOf);
  const running = await causes.running(most.running);
  const waiting = await causes.heads(levelsThatWait(pending, thresholds.starvedAfter), now);
  const heads = waiting.filter((head) => mayStarve(head, { thresholds, health, limits }));
  const bounds = { next: most.next, ended: most.ended, enough: thresholds.starvedStarts };
  return {
    now,
    thresholds,
    database: known ?? (await slow.database(now)),
    health,
    backlog: pending,
    limits,
    recent: attemptsOf(await stats.counts(minuteOf(now - thresholds.failingWithin))),
    // How long functions take as a rule matters only if one has run for longer than `hungAfter`.
    usual: running.some(({ age }) => age > thresholds.hungAfter) ? await slow.usual(now) : [],
    running,
    crashes: await causes.crashes(thresholds.crashingWithin, most.crashed),
    piles: await causes.piles(thresholds.pilingTasks, most.piled),
    depths: await causes.depths(thresholds.behindFor + depthMargin),
    heads,
    started: heads.length === 0 ? [] : merged(running, await causes.started(heads, bounds, now)),
  };
}

/** Each started task once. */
const merged = (running: readonly StartedTask[], others: readonly StartedTask[]): StartedTask[] => [
  ...new Map([...running, ...others].map((task) => [task.taskId, task])).values(),
];

/** The minute of statistics in which a time is. */
const minuteOf = (time: number): number => Math.max(0, Math.floor(time / 60_000) * 60_000);

/** The levels with tasks that have waited for so long, those that have waited longest. */
function levelsThatWait(pending: readonly PendingTasks[], starvedAfter: number): Level[] {
  const levels = pending.flatMap(({ queueName, func, priorities }) =>
    priorities.map(({ priority, oldestPendingAge }) => ({
      queueName,
      func,
      priority,
      age: oldestPendingAge ?? 0,
    })),
  );
  const old = levels.filter(({ age }) => age >= starvedAfter).sort((a, b) => b.age - a.age);
  return old.slice(0, most.levels).map(({ age: _, ...level }) => level);
}

/** Reads anew only when the last read is older than this many milliseconds, or has failed, or the clock was set back. */
function keptFor<T>(ms: number, read: () => Promise<T>): (now: number) => Promise<T> {
  let known: { at: number; value: T } | undefined;
  return async (now) => {
    if (known === undefined || now < known.at || now - known.at >= ms)
      known = { at: now, value: await read() };
    return known.value;
  };
}
