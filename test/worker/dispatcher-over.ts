/** A dispatcher by itself, over a store that a test writes. */
import { onTestFinished } from "vitest";
import { Part } from "../../src/base/tasks/part.ts";
import { Wakeups } from "../../src/queue/wakeups.ts";
import type { TaskRecord } from "../../src/task.ts";
import type { Heard } from "../../src/worker/claim-policy.ts";
import { Dispatcher } from "../../src/worker/dispatcher.ts";
import type { DispatcherHost } from "../../src/worker/dispatcher-host.ts";
import { eventLoopExecutor } from "../../src/worker/executor.ts";

/** A claimed task without arguments. */
export function claimedRecord(id: number, func: string): TaskRecord {
  const none = {
    result: null,
    error: null,
    waitUntil: null,
    finishedAt: null,
    requestId: null,
    uniqueKey: null,
    uniqueUntil: null,
    groupKey: null,
  };
  return {
    ...{ id, func, args: "[]", kwargs: "{}", meta: "{}", status: "running", generationId: 2, priority: 5 },
    ...{ createdAt: 1, updatedAt: 1, startedAt: 1, queueName: "default", retryCount: 0, maxRetries: 0 },
    ...{
      ...none,
      workerId: "w1",
      timeout: null,
      progress: null,
      progressNote: null,
      fillDefaults: 0,
      traceContext: null,
      scheduleName: null,
      slot: null,
      parentId: null,
      rootId: null,
      expiresAt: null,
    },
  };
}

/** A server's store that has no tasks, and one connection. */
export const emptyStore = (): DispatcherHost["store"] => ({
  synchronous: false,
  cyclesMayOverlap: () => false,
  settleAndClaim: async ({ outcomes }) => ({
    settled: outcomes.map(() => true),
    claimed: [],
    more: false,
    registered: true,
  }),
  heldBy: async () => [],
  taskStates: async () => [],
  get: async () => [],
  progress: async () => undefined,
  fillDefaults: async () => undefined,
  log: async () => undefined,
  within: () => {
    throw new Error("no task here uses a transaction");
  },
});

/** What its claims say, and hear from the store that a test has made. */
export const asked = new Part<{ mayStartLater: number | undefined }>("test");
export const heard = new Part<Heard>("test");

/** A dispatcher with four slots, unless `host` says otherwise, which throws what it has to report. */
export function dispatcherOver(
  store: DispatcherHost["store"],
  funcs: readonly string[],
  host: Partial<DispatcherHost> = {},
): Dispatcher {
  const dispatcher = new Dispatcher({
    ...{ store, wakeups: new Wakeups(), workerId: "w1", queueNames: ["default"], concurrency: 4 },
    ...{ context: undefined, maxPayload: 1_000, executorOf: () => eventLoopExecutor },
    claims: {
      funcs: () => funcs,
      ask: ({ mayStartLater }) => asked.with({ mayStartLater }),
      hear: (answer) => heard.of(answer) ?? {},
      throttle: () => {
        throw new Error("no task here is throttled");
      },
    },
    onDeclaredDead: () => undefined,
    onClaim: () => undefined,
    onScheduled: () => undefined,
    reportStarted: () => undefined,
    reportSettled: () => undefined,
    reportLost: () => undefined,
    reportError: (error) => {
      throw error;
    },
    ...host,
  });
  onTestFinished(() => dispatcher.abandon());
  return dispatcher;
}

/** Lets everything happen that needs no answer. */
export async function turns(count = 5): Promise<void> {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => setImmediate(resolve));
}
