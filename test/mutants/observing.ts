/** Faults of what is observed: spans, and the context of a trace. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const inOtel = (test: string) => ({ file: "test/entries/otel/otel.test.ts", test });

const watchingTasks = (test: string) => ({ file: "test/features/inspect/watch-tasks.test.ts", test });

export const observingFaults: readonly Mutant[] = [
  {
    name: "a-retry-goes-on-with-the-trace-of-the-enqueue",
    why: "A retry that runs hours later stretches the trace of a request over those hours.",
    in: "startProcess",
    find: "task.retryCount > 0",
    replace: "task.retryCount > 99",
    caughtBy: inOtel(
      "a retry is a trace of its own with a link to the enqueue, and both attempts say what failed",
    ),
  },
  {
    name: "a-function-runs-outside-of-its-span",
    why: "The spans that a function makes are not found in the trace of its task.",
    in: "callIn",
    find: "context.with(active, operation)",
    replace: "operation()",
    caughtBy: inOtel(
      "the first attempt is a child of the enqueue, and the function's own spans are children of its run",
    ),
  },
  {
    name: "parts-of-a-dropped-attempt-are-sampled",
    why: "The sampler drops an attempt, and its function's call is exported as a trace of its own.",
    in: "listenForAttempts.partOf",
    find: "attempt && spanOf(attempt)",
    replace: "attempt",
    caughtBy: inOtel(
      "of a task that the sampler drops, it is asked once for the attempt, with what the function's attempts have in common",
    ),
  },
  {
    name: "every-task-joins-the-first-trace",
    why: "All tasks of a worker are in the trace of the first request.",
    in: "EnqueueContexts.of",
    find: "text === this.#text",
    replace: "this.#text !== null",
    caughtBy: inOtel("each task goes on with the trace of its own enqueue"),
  },
  {
    name: "a-dropped-attempt-is-no-parent",
    why: "The sampler drops a trace, and the function's own spans are exported as traces without their beginning.",
    in: "startProcess",
    find: "message.call = saysAsMuch ? parent.call : callIn(trace.setSpan(ROOT_CONTEXT, span));",
    replace:
      "if (isRecording) message.call = saysAsMuch ? parent.call : callIn(trace.setSpan(ROOT_CONTEXT, span));",
    caughtBy: inOtel(
      "a function's own spans are dropped with the attempt of a task that was enqueued without a trace",
    ),
  },
  {
    name: "an-error-in-a-listener-ends-the-process",
    why: "A broken exporter of spans ends the app's process, since Node throws what a subscriber throws.",
    in: "guarded",
    find: 'diag.error("dbq-ts/otel", error as Error);',
    replace: "throw error;",
    caughtBy: inOtel(
      "an exporter that throws harms neither the enqueue nor the task, and the logger of OpenTelemetry says so",
    ),
  },
  {
    name: "abandoned-call-keeps-its-trace-open",
    why: "The span of a function that a stop or a purge abandons is never exported.",
    in: "AttemptTrace.end",
    find: 'this.callEnded({ how: "abandoned" });',
    replace: "",
    caughtBy: inOtel("a function that a stop abandons has its span, which says so, inside of the attempt's"),
  },
  {
    name: "call-ends-twice-in-its-trace",
    why: "Each call of a function has two ends in the diagnostics channel: metrics that count them are double.",
    in: "AttemptTrace.callEnded",
    find: "this.#run = undefined;",
    replace: "",
    caughtBy: {
      file: "test/worker/diagnostics.test.ts",
      test: "dbq:run traces each call of a handler, and its context reaches the handler",
    },
  },
  {
    name: "hook-is-waited-for-after-a-stop",
    why: "A hook that hangs keeps a stopped worker's process alive for 30 s, and its span open.",
    in: "RunningAttempt.#finish",
    find: "if (this.#released) this.#stopWaiting();",
    replace: "",
    caughtBy: {
      file: "test/worker/diagnostics.test.ts",
      test: "the trace of a hook that never settles ends when the worker stops",
    },
    hangs: true,
  },
  {
    name: "broken-subscriber-ends-the-operation",
    why: "A tracer that throws leaves a task running for ever, with its slot taken.",
    in: "callTraced",
    find: "if (!once.threw(error)) reportCall(channel, error);",
    replace: "throw error;",
    caughtBy: {
      file: "test/worker/diagnostics.test.ts",
      test: "a subscriber whose call throws is reported and harms no operation",
    },
  },
  {
    name: "operation-runs-as-often-as-a-subscriber-calls-it",
    why: "A tracer that calls its operation twice enqueues each task twice, and runs it twice.",
    in: "OnceCalled.call",
    find: "this.#end ??= this.#run();",
    replace: "this.#end = this.#run();",
    caughtBy: {
      file: "test/worker/diagnostics.test.ts",
      test: "a subscriber whose call calls its operation twice is reported and harms no operation",
    },
  },
  {
    name: "forgotten-lines-are-read-again",
    why: "Beside ten thousand pending tasks, dbq tail prints the start and the lines of a running task a second time.",
    in: "FollowedTasks.#forget",
    find: 'status !== "running"',
    replace: "true",
    caughtBy: {
      file: "test/features/inspect/follow.full.test.ts",
      test: "a follower reports each line of a task once, also after the lines of ten thousand others that are pending",
    },
  },
  {
    name: "trace-ends-at-the-child",
    why: "What a function does in a thread or process is a trace of its own, which nobody finds from the request.",
    in: "carryToChildren",
    find: "if (span) runIn(message, trace.setSpanContext(ROOT_CONTEXT, span));",
    replace: "",
    caughtBy: {
      file: "test/entries/otel/children.full.test.ts",
      test: "traced-thread > its spans are children of the worker's span of the call",
    },
  },
  {
    name: "board-counts-each-scraped-process",
    why: "Three processes are scraped, and the board shows three times as many attempts as there were.",
    in: "attempts",
    find: "`sum by (${labels}) (max by (queue, func, outcome) (rate(dbq_task_duration_seconds_count{${ofChosen}${more}}[$__rate_interval])))`",
    replace:
      "`sum by (${labels}) (rate(dbq_task_duration_seconds_count{${ofChosen}${more}}[$__rate_interval]))`",
    caughtBy: {
      file: "test/features/grafana.full.test.ts",
      test: "Prometheus takes each query, and two scraped processes count once",
    },
  },
  {
    name: "a-deleted-task-is-told-by-nobody",
    why: "A list that is kept up to date by watchTasks shows deleted tasks for ever.",
    in: "FollowedTasks.#states",
    find: "!states.has(id)",
    replace: "false",
    caughtBy: watchingTasks(
      "what was there before is told of when it changes: a cancel, a retry, and a deletion of one that has ended",
    ),
  },
  {
    name: "a-watch-of-one-function-tells-of-all",
    why: "Whoever watches one function gets the arguments of all others.",
    in: "FollowedTasks.#matches",
    find: "(asked === undefined || asked === func)",
    replace: "true",
    caughtBy: watchingTasks("func, queueName and status leave out the events of other tasks"),
  },
];
