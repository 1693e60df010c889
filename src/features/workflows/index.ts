/** Workflows: steps, sleeping, events, children, groups and chains. */
import { taskId } from "../../base/options/options.ts";
import { type Act, actOn } from "../../base/runtime/maybe-promise.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { deletingJob } from "../../worker/pruning.ts";
import { internalsOf, requestsOf, type Shared } from "../queue.ts";
import type { FullTransaction } from "../store.ts";
import { Actions } from "./actions.ts";
import { stepsBefore } from "./earlier-steps.ts";
import { groupOf } from "./groups.ts";
import { awaitGroup, countWaits, getRun, listWaiting } from "./look.ts";
import type { GetRunOptions, Run, WorkflowActions, WorkflowMethods } from "./methods.ts";
import { retryMethod } from "./retry.ts";
import { holdsUp, letUndo, UndoJob } from "./undo-job.ts";
import { undoing } from "./undo-run.ts";
import { WaitUpkeep } from "./upkeep.ts";

/** Milliseconds that events are kept: 30 days. */
const eventsKept = 30 * 86_400_000;
const eventsEvery = 3_600_000;

export function workflows(queue: CoreQueue): Feature {
  const { store } = internalsOf(queue);
  const pruning = deletingJob("deleting old events", eventsEvery, (most) =>
    store.workflows.pruneEvents(eventsKept, most),
  );
  const runBeginning: Shared["runBeginning"] = (id, options, characters) =>
    getRun(queue, taskId(id, "getRun"), options, characters);
  return {
    methods: { ...methodsOf(queue), retryTask: retryMethod(queue) },
    shared: { runBeginning },
    within: (inside, settings) => {
      const actions = new Actions((inside as FullTransaction).workflows, settings);
      return writesOf(actOn(actions, settings.synchronous));
    },
    attempts: {
      before: stepsBefore,
      groupOf: (record) => groupOf(queue, record),
      holdsUp: (record) => holdsUp(queue, record),
      ending: undoing,
      hasStopped: (record) => letUndo(queue, record),
    },
    jobs: (host) => [new WaitUpkeep(store.workflows, host), new UndoJob(store.workflows, host), pruning],
  };
}

function methodsOf(queue: CoreQueue): WorkflowMethods {
  const { wakeups, options } = internalsOf(queue);
  const wake = () => wakeups.workAdded(true);
  const actions = new Actions(requestsOf(queue).workflows.writes, {
    maxPayload: options.maxPayload,
    synchronous: false,
    wake,
  });
  return {
    ...(writesOf(actOn(actions, false)) as Pick<WorkflowMethods, keyof WorkflowActions>),
    awaitGroup: async (id, given) => await awaitGroup(queue, taskId(id, "awaitGroup"), given),
    getRun: async <R>(id: number, given?: GetRunOptions) =>
      (await getRun(queue, taskId(id, "getRun"), given)) as Run<R> | undefined,
    countWaits: () => countWaits(queue),
    listWaiting: (name, given) => listWaiting(queue, name, given),
  };
}

/** The methods that write, which may be destructured. */
const writesOf = (act: Act<WorkflowActions>): WorkflowActions => ({
  emitEvent: (name, payload) => act((actions) => actions.emitEvent(name, payload)),
  enqueueGroup: (entries, options) => act((actions) => actions.enqueueGroup(entries, options)),
  enqueueChain: (entries) => act((actions) => actions.enqueueChain(entries)),
});
