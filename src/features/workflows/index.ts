/** Workflows: steps, sleeping, events, children, groups and chains. */
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { deletingJob } from "../../worker/pruning.ts";
import type { FullTransaction } from "../store.ts";
import { Actions } from "./actions.ts";
import { groupOf } from "./groups.ts";
import { awaitGroup, getRun, listWaiting } from "./look.ts";
import { holdsUp, letUndo, UndoJob } from "./undo-job.ts";
import { undoing } from "./undo-run.ts";
import { WaitUpkeep } from "./upkeep.ts";

/** Milliseconds that events are kept: 30 days. */
const eventsKept = 30 * 86_400_000;
const eventsEvery = 3_600_000;

export function workflows(queue: Queue): Feature {
  const { store } = internalsOf(queue);
  const pruning = deletingJob("deleting old events", eventsEvery, (most) =>
    store.workflows.pruneEvents(eventsKept, most),
  );
  return {
    methods: {
      workflows: {
        over: (settings, inside) =>
          new Actions((inside as FullTransaction | undefined)?.workflows ?? store.workflows.writes, settings),
        getRun: (id, options) => getRun(queue, id, options),
        listWaiting: (target, options) => listWaiting(queue, target, options),
        awaitGroup: (id, options) => awaitGroup(queue, id, options),
        retryFrom: (id, step) => store.workflows.retryFrom(id, step),
        undoAgain: (id) => store.workflows.undoAgain(id),
      },
    },
    attempts: {
      groupOf: (record) => groupOf(queue, record),
      holdsUp: (record) => holdsUp(queue, record),
      ending: undoing,
      hasStopped: (record) => letUndo(queue, record),
    },
    jobs: (host) => [new WaitUpkeep(store.workflows, host), new UndoJob(store.workflows, host), pruning],
  };
}
