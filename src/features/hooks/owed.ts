/**
 * The job of every worker that runs the hooks which crashes owe. A rescue writes one row for each attempt that ended with its
 * worker, in the transaction of the crash. A worker that runs the function takes the row, calls `onFailure`, and deletes the
 * row. If that worker dies meanwhile, its own rescue frees the row for the next one, so a hook runs at least once.
 */
import { once } from "node:events";
import { performance, sleep } from "../../base/runtime/timers.ts";
import type { WithParts } from "../../base/tasks/part.ts";
import { toTask } from "../../base/values/records.ts";
import { WorkerStoppedError } from "../../errors.ts";
import { crashName } from "../../store.ts";
import type { TaskError, TaskRecord } from "../../task.ts";
import { AttemptTrace } from "../../worker/attempt-trace.ts";
import { asTask, runHook } from "../../worker/hooks.ts";
import type { Running } from "../../worker/lifecycle.ts";
import { type HostedCode, type Job, type JobHost, longestSleep } from "../../worker/periodic-job.ts";
import type { FullStore } from "../store.ts";
import { hooksDue, type OwedHook } from "./contract.ts";

/** Hooks that one worker runs at once. */
const mostAtOnce = 10;
/** Milliseconds until the next look while so many run. */
const busyAfter = 100;
/** The least milliseconds between two looks: a hook whose function no worker knows is owed for long. */
const leastBetween = 1_000;
/** Workers that may die while they run a hook. Without a limit, a hook that kills its process would kill all workers, one by one. */
const mostTries = 3;
/** Milliseconds that a hook is owed at most: 30 days. */
const longestOwed = 30 * 86_400_000;
const pruneEvery = 3_600_000;
/** Milliseconds until a step that the database has refused is repeated. */
const repeatAfter = 1_000;

type HookStores = Pick<FullStore, "hooks" | "get" | "attempts">;

export class OwedHooks implements Job {
  readonly name = "running the hooks that crashes owe";
  readonly #store: HookStores;
  readonly #host: JobHost;
  /** The ids of the hooks that this worker has taken, and runs. */
  readonly #taken = new Set<number>();
  readonly #over = new AbortController();
  /** Resolves when the grace of a stop is over. */
  readonly #skipped = once(this.#over.signal, "abort").then(() => undefined);
  #isStopping = false;
  /** Whether the last look for due work has found an owed hook. */
  #isOwed = false;
  #wakeDrained: () => void = () => undefined;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #prunedAt = Number.NEGATIVE_INFINITY;

  constructor(store: HookStores, host: JobHost) {
    this.#store = store;
    this.#host = host;
  }

  dueIn(found: WithParts): number | undefined {
    if (!hooksDue.of(found) || !this.#host.code) return undefined;
    this.#isOwed = true;
    return Math.max(0, this.#lookedAt + leastBetween - performance.now());
  }

  async run(): Promise<number> {
    const { code, workerId } = this.#host;
    if (!code || !this.#isOwed) return longestSleep;
    this.#isOwed = false;
    this.#lookedAt = performance.now();
    await this.#prune();
    const runs = (queueName: string, func: string) => code.definitionOf(queueName, func) !== undefined;
    const room = mostAtOnce - this.#taken.size;
    const taken = room > 0 ? await this.#store.hooks.take(workerId, runs, room, [...this.#taken]) : [];
    // Those that are left when the worker unregisters are free again.
    if (!this.#isStopping) for (const hook of taken) void this.#call(hook, code);
    if (this.#taken.size < mostAtOnce) return longestSleep;
    this.#isOwed = true;
    return busyAfter;
  }

  async #prune(): Promise<void> {
    if (performance.now() - this.#prunedAt < pruneEvery) return;
    this.#prunedAt = performance.now();
    await this.#store.hooks.prune(longestOwed);
  }

  // ---- one hook ------------------------------------------------------------------------------

  /** Never rejects. A hook whose row is not deleted is run again: by another worker, once this one has stopped or died. */
  async #call(hook: OwedHook, code: HostedCode): Promise<void> {
    this.#taken.add(hook.id);
    const where = `onFailure of task "${hook.func}" (${hook.taskId}), whose worker crashed`;
    await this.#repeat(where, () => this.#run(hook, code, where));
    this.#taken.delete(hook.id);
    if (this.#taken.size === 0) this.#wakeDrained();
  }

  /** Until it succeeds, or a stop is over. */
  async #repeat(where: string, act: () => Promise<void>): Promise<void> {
    const { signal } = this.#over;
    while (!signal.aborted)
      try {
        return await act();
      } catch (error) {
        this.#host.report(error, where);
        await sleep(repeatAfter, undefined, { signal }).catch(() => undefined);
      }
  }

  async #run(hook: OwedHook, code: HostedCode, where: string): Promise<void> {
    const { report } = this.#host;
    const onFailure = code.definitionOf(hook.queueName, hook.func)?.onFailure;
    // Of a task that was deleted meanwhile there is nothing left to tell.
    const record = onFailure && (await this.#crashed(hook));
    if (hook.tries > mostTries)
      report(new Error(`given up: ${mostTries} workers have ended while they ran it`), where);
    else if (record) {
      const { signal } = this.#over;
      const call = () => onFailure(toTask(record), crashErrorOf(record));
      const run = () =>
        asTask(record, code.context, signal, () => runHook(where, call, this.#skipped, report));
      const trace = AttemptTrace.of(record);
      await (trace ? trace.hook("onFailure", run) : run());
      if (signal.aborted) return;
    }
    await this.#repeat(where, async () => void (await this.#store.hooks.remove(hook)));
  }

  /** The task as the crash left it: it may run again, or have ended since. */
  async #crashed({ taskId, generationId, status, retryCount }: OwedHook): Promise<TaskRecord | undefined> {
    const [now] = await this.#store.get([taskId]);
    if (!now) return undefined;
    const attempts = await this.#store.attempts(taskId);
    const crash = attempts.find((attempt) => attempt.generationId === generationId);
    const { workerId = null, startedAt = null, endedAt = now.updatedAt } = crash ?? {};
    const error = { name: crash?.errorName ?? crashName, message: crash?.errorMessage ?? "the worker died" };
    return {
      ...now,
      ...{ status, retryCount, workerId, startedAt },
      ...{
        generationId: generationId + 1,
        updatedAt: endedAt,
        finishedAt: status === "failed" ? endedAt : null,
      },
      ...{ waitUntil: null, result: null, error: JSON.stringify(error) },
    };
  }

  // ---- stop ----------------------------------------------------------------------------------

  /** A stop waits for hooks within its grace, as for tasks. */
  readonly running: Running = {
    stopClaiming: () => {
      this.#isStopping = true;
    },
    drained: async () => {
      if (this.#taken.size > 0)
        await new Promise<void>((resolve) => {
          this.#wakeDrained = resolve;
        });
    },
    interrupt: () => this.#over.abort(new WorkerStoppedError()),
    abandon: () => this.#over.abort(),
  };
}

function crashErrorOf({ error }: TaskRecord): Error {
  const { name, message } = JSON.parse(error as string) as TaskError;
  return Object.assign(new Error(message), { name });
}
