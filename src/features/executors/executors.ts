/**
 * The executors of a worker: the event loop for most tasks, threads and processes for those with `runIn`. The first such task
 * loads the code for threads and processes.
 */
import { encodeObject } from "../../base/values/codec.ts";
import { childCallChannel, report } from "../../events.ts";
import {
  type Execution,
  type Executor,
  type ExecutorSettings,
  type Executors,
  eventLoopExecutor,
} from "../../worker/executor.ts";
import type { Children } from "./children.ts";

/**
 * Milliseconds that an attempt waits for an aborted call. A thread may be in a native call, which nothing can stop. A process
 * ends 2 s after the abort, unless the kernel itself does not let it go.
 */
const abortTimeoutMs = { thread: 2_500, process: 30_000 };

/** The trace context for the spans of the function, as JSON text: the one that a subscriber has set, or else that of the enqueue. */
function carriedBy({ record }: Execution): string | null {
  if (!childCallChannel.hasSubscribers) return record.traceContext;
  const message: { record: object; traceContext?: unknown } = { record };
  childCallChannel.publish(message);
  const { traceContext } = message;
  try {
    return traceContext === undefined ? record.traceContext : encodeObject(traceContext, "traceContext");
  } catch (error) {
    report(error, "the traceContext that a subscriber of dbq:child-call has set");
    return record.traceContext;
  }
}

/** Opens the executors of one worker. */
export function openChildExecutors(settings: ExecutorSettings): Executors {
  let loading: Promise<Children> | undefined;
  let children: Children | undefined;
  const load = async (): Promise<Children> => {
    const { Children } = await import("./children.ts");
    children = new Children(settings);
    return children;
  };
  const executorIn = (runIn: "thread" | "process"): Executor => ({
    abortTimeoutMs: abortTimeoutMs[runIn],
    call: async (execution, args, kwargs) => {
      // Before anything is awaited: the span of the call is the active one now.
      const traceContext = carriedBy(execution);
      loading ??= load();
      return await (children ?? (await loading)).call(execution, args, kwargs, traceContext);
    },
    // After the call that waits for the same promise.
    abort: (execution: Execution, reason: unknown) => {
      loading?.then(
        (loaded) => loaded.abort(execution, reason),
        () => undefined,
      );
    },
    isWorthRetry: (error) => children?.isWorthRetry(error),
  });
  const executors = { main: eventLoopExecutor, thread: executorIn("thread"), process: executorIn("process") };
  return {
    executorOf: ({ runIn }) => executors[runIn],
    close: async () => await children?.close(),
  };
}
