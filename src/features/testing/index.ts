/** `dbq-ts/testing`: a queue for an app's tests, on the real store, by a clock that the test moves. */
import { show } from "../../base/options/durations.ts";
import type { QueueOptions } from "../../base/options/options.ts";
import { anything, readOptions } from "../../base/options/validators.ts";
import { TestClock } from "../../base/runtime/clock.ts";
import { openQueueAt, type QueueTarget } from "../../open.ts";
import type { DatabaseOf } from "../../queue/drizzle.ts";
import { type KitOptions, kitReaders, readTime } from "./options.ts";
import { addTestMethods, type TestQueue } from "./queue.ts";

export {
  assertEnqueued,
  type EnqueuedOptions,
  type MatcherResult,
  matchers,
  type OnServer,
} from "./matchers.ts";
export type { AdvanceOptions, KitOptions, RunOptions, TestDrainOptions } from "./options.ts";
export type { ReadNow, TestDrainReport, TestMethods, TestQueue } from "./queue.ts";

/** Options of `testQueue`. */
export interface TestQueueOptions<Target extends QueueTarget = ":memory:"> extends KitOptions {
  /** Where the clock stands at first: a `Date`, milliseconds since 1970, or a text with a time zone. @default the time of the call */
  now?: Date | number | string;
  /** A path or a URL, as of `openQueue`. Excludes `db`. @default ":memory:" */
  target?: Target;
  /** The app's own Drizzle database, which stays open when the queue closes. Excludes `target`. */
  db?: Target;
  /** Options of `openQueue`. */
  queue?: QueueOptions;
}

/**
 * Opens a queue for tests: the real store, by a clock of its own that stands still until `q.advance`. Several may be open at a
 * time; close each, or declare it by `await using`.
 * @throws TypeError for a wrong option; as `openQueue`
 */
export async function testQueue<const Target extends QueueTarget = ":memory:">(
  options?: TestQueueOptions<Target>,
): Promise<TestQueue<DatabaseOf<Target>>> {
  const { now, target, db, queue, ...kit } = readOptions(options, "testQueue", {
    ...kitReaders,
    now: readTime,
    target: anything,
    db: anything,
    queue: anything,
  });
  if (target !== undefined && db !== undefined)
    throw new TypeError(`testQueue: pass target or db, not both: target is ${show(target)}`);
  const clock = new TestClock(now);
  const opened = await openQueueAt(clock, (target ?? db ?? ":memory:") as QueueTarget, queue as QueueOptions);
  return addTestMethods(opened, clock, kit) as TestQueue<DatabaseOf<Target>>;
}
