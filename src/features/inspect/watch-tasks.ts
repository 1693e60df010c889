/** `queue.watchTasks`: the events of all tasks that match. A reader that does not ask for the next event costs no query. */
import { setMaxListeners } from "node:events";
import { countReaders } from "../../base/options/options.ts";
import { readOptions, signal } from "../../base/options/validators.ts";
import { endedBy } from "../../base/runtime/ended-by.ts";
import { clearTimeout, performance, setTimeout } from "../../base/runtime/timers.ts";
import { QueueClosedError } from "../../errors.ts";
import { fallbackPollMs, onTaskChanges, pauseAfter } from "../../queue/looks.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { internalsOf } from "../queue.ts";
import { FollowedTasks, type TasksLook } from "./followed-tasks.ts";
import type { InspectMethods, TasksEvent } from "./methods.ts";

/** What ends an iteration: an error, or the app that wants no more. */
class End {
  readonly #ended: Promise<undefined>;
  #resolve: () => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  /** Ends a pause. */
  #wake: () => void = () => undefined;
  #hinted = false;

  constructor() {
    this.#ended = new Promise((resolve, reject) => {
      [this.#resolve, this.#reject] = [() => resolve(undefined), reject];
    });
    this.#ended.catch(() => undefined);
  }

  readonly fail = (error: unknown): void => {
    this.#reject(error);
    this.#wake();
  };

  readonly stop = (): void => {
    this.#resolve();
    this.#wake();
  };

  /** Something may have changed. */
  readonly hint = (): void => {
    this.#hinted = true;
    this.#wake();
  };

  /** What `work` gives; undefined: the app wants no more. @throws with what it was ended */
  async before<T>(work: Promise<T>): Promise<T | undefined> {
    work.catch(() => undefined);
    return await Promise.race([this.#ended, work]);
  }

  /** Waits for so long at least, and then for a hint. */
  async pause(least: number): Promise<void> {
    await this.#sleep(least, false);
    if (!this.#hinted) await this.#sleep(fallbackPollMs - least, true);
    this.#hinted = false;
  }

  #sleep(ms: number, endsByHint: boolean): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.max(0, ms));
      this.#wake = () => {
        if (!endsByHint) return;
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Gives a queue `watchTasks`. */
export function watchTasks(queue: CoreQueue): Feature {
  const iterators: Pick<InspectMethods, "watchTasks"> = { watchTasks: (options) => watch(queue, options) };
  return { iterators };
}

const { func, queueName, status } = countReaders;

/** @throws TypeError; while iterating: `signal.reason`, QueueClosedError, DatabaseError */
function watch(queue: CoreQueue, given: unknown): AsyncGenerator<TasksEvent, void, undefined> {
  const { signal: aborted, ...filter } = readOptions(given, "watchTasks", {
    func,
    queueName,
    status,
    signal,
  });
  const { store } = internalsOf(queue);
  const end = new End();
  return endedBy(eventsOf(queue, new FollowedTasks(store, filter), end, aborted), end.stop);
}

async function* eventsOf(
  queue: CoreQueue,
  tasks: FollowedTasks,
  end: End,
  aborted: AbortSignal | undefined,
): AsyncGenerator<TasksEvent, void, undefined> {
  aborted?.throwIfAborted();
  const leave = subscribe(queue, end, aborted);
  try {
    await end.before(tasks.start());
    for (;;) {
      const begun = performance.now();
      const found = await end.before(tasks.look());
      if (found === undefined) return;
      const took = performance.now() - begun;
      for (const event of eventsIn(found)) {
        yield event;
        aborted?.throwIfAborted();
      }
      if (!found.more) await end.before(end.pause(pauseAfter(took)));
    }
  } finally {
    leave();
  }
}

const eventsIn = ({ deleted, told }: TasksLook): TasksEvent[] => [
  ...deleted.map((task) => ({ type: "deleted" as const, task })),
  ...told.flatMap(({ events, task }) => events.map((event) => ({ ...event, task }))),
];

/** Hears of changes and of the end. Returns what undoes it. */
function subscribe(queue: CoreQueue, end: End, aborted: AbortSignal | undefined): () => void {
  const { store, wakeups, beforeClose } = internalsOf(queue);
  const onAbort = () => end.fail(aborted?.reason);
  const onClose = async () => end.fail(new QueueClosedError());
  // Many watches may share one signal; that is no leak.
  if (aborted) setMaxListeners(0, aborted);
  aborted?.addEventListener("abort", onAbort);
  beforeClose.add(onClose);
  const stopHearing = onTaskChanges(store, wakeups, end.hint);
  return () => {
    aborted?.removeEventListener("abort", onAbort);
    beforeClose.delete(onClose);
    stopHearing();
  };
}
