/** How workflows join a store: what they do when a task ends, is cancelled, run again or removed; and their methods. */
import type { MaybePromise } from "../../../store.ts";
import type { CoreOperations } from "../../../stores/sql/operations.ts";
import type { Program, Runner } from "../../../stores/sql/program.ts";
import { groupFunction, type WorkflowStore, type WorkflowWrites } from "../contract.ts";
import { ChildEnds } from "./child-ends.ts";
import { EventOperations } from "./events.ts";
import { GroupOperations } from "./groups.ts";
import { ParkOperations } from "./parking.ts";
import { StepOperations } from "./steps.ts";
import { TaskTree } from "./task-tree.ts";
import { UndoOperations } from "./undo.ts";
import { WaitRows } from "./wait-rows.ts";

export interface WorkflowOperations {
  steps: StepOperations;
  waits: WaitRows;
  events: EventOperations;
  parks: ParkOperations;
  ends: ChildEnds;
  groups: GroupOperations;
  undo: UndoOperations;
}

export function workflowsOf(core: CoreOperations): WorkflowOperations {
  const { texts, transitions, tasks, maintenance } = core;
  const tree = new TaskTree(texts);
  const undo = new UndoOperations(texts, tasks, tree);
  const steps = new StepOperations(texts, tasks, tree, undo);
  const waits = new WaitRows(texts, tasks);
  const events = new EventOperations(texts, tree, steps, waits);
  const parks = new ParkOperations(texts, tasks, steps, waits, events);
  const ends = new ChildEnds(core, tree, waits, events);
  const groups = new GroupOperations(texts, tasks, tree, waits, ends);
  maintenance.onRemove = function* (ids, remove, areFinished) {
    yield* steps.removeOf(ids);
    yield* waits.removeOf(ids);
    return yield* areFinished ? remove() : ends.removing(ids, remove);
  };
  transitions.onEnd = (ended) => ends.onEnd(ended);
  transitions.holdUp = (ending) => undo.holdUp(ending);
  tasks.isFixed = ({ func }) => func === groupFunction;
  tasks.onCancel = (record, error) => ends.cancelTree(record, error);
  tasks.onRetry = (id) => undo.onRetry(id);
  return { steps, waits, events, parks, ends, groups, undo };
}

/** The writes of workflows, by transactions of the store or inside of an app's. */
export function workflowWrites(
  write: <T>(op: () => Program<T>) => MaybePromise<T>,
  { steps, events, groups, undo }: WorkflowOperations,
  /** For what a second run would do twice. */
  writeOnce = write,
): WorkflowWrites {
  return {
    storeStep: (task, step) => write(() => steps.storeStep(task, step)),
    storeUndo: (task, name, state, error) => write(() => undo.storeUndo(task, name, state, error)),
    emit: (name, payload) => {
      let emitted = false;
      return write(function* () {
        emitted = yield* events.emit(name, payload, emitted);
        return emitted;
      });
    },
    insertGroup: (group) => writeOnce(() => groups.insertGroup(group)),
    insertChain: (tasks) => writeOnce(() => groups.insertChain(tasks)),
  };
}

export function workflowMethods({ run, write, writeOnce }: Runner, ops: WorkflowOperations): WorkflowStore {
  const { steps, waits, events, parks, ends, groups, undo } = ops;
  return {
    writes: workflowWrites(write, ops, writeOnce),
    steps: (taskId) => run(() => steps.steps(taskId)),
    firstSteps: (taskId, limit, characters) => run(() => steps.firstSteps(taskId, limit, characters)),
    step: (taskId, name) => run(() => steps.named(taskId, name)),
    stepNames: (taskId, limit) => run(() => steps.stepNames(taskId, limit)),
    countSteps: (taskId) => run(() => steps.countSteps(taskId)),
    lastActive: (most, before = Number.MAX_SAFE_INTEGER) => run(() => steps.lastActive(most, before)),
    waits: (taskIds) => run(() => waits.waits(taskIds)),
    openWaits: (taskIds, limit) => run(() => waits.openWaits(taskIds, limit)),
    firstWaits: (taskIds, limit) => run(() => waits.firstWaits(taskIds, limit)),
    countWaits: (most) => run(() => waits.countWaits(most)),
    lastWaiting: (most, before = Number.MAX_SAFE_INTEGER) => run(() => waits.lastWaiting(most, before)),
    waitingFor: (target, limit, after = 0) => run(() => waits.waitingFor(target, limit, after)),
    write: (task, written, children) => run((tries) => steps.write(task, written, children, tries > 0)),
    forget: (task, names) => write(() => steps.forget(task, names)),
    keepEnds: (task, ended) => write(() => steps.keepEnds(task, ended)),
    wait: (task, asked, park) => write(() => parks.wait(task, asked, park)),
    endDue: (limit) => write(() => events.endDue(limit)),
    repair: (after, limit) => write(() => ends.repair(after, limit)),
    pruneEvents: (age, limit) => write(() => events.prune(age, limit)),
    children: (taskId, limit) => run(() => groups.children(taskId, limit)),
    retryFrom: (taskId, step) =>
      write(function* () {
        const retried = yield* steps.retryFrom(taskId, step);
        if (retried?.changed) yield* waits.removeOf(JSON.stringify([taskId]));
        return retried;
      }),
    hasUndos: (taskId) => run(() => undo.hasUndos(taskId)),
    undoRuns: (taskId) => run(() => undo.runs(taskId)),
    undoable: (runs, limit) => run(() => undo.undoable(runs, limit)),
    takeUndoable: (taskIds, workerId, most) => write(() => undo.take(taskIds, workerId, most)),
    letUndo: (task) => write(() => undo.letUndo(task)),
    undoAgain: (taskId) => write(() => undo.undoAgain(taskId)),
    groupCounts: (groupId) => run(() => groups.groupCounts(groupId)),
    groupOf: (taskId) => run(() => groups.groupOf(taskId)),
    members: (groupId, after, limit) => run(() => groups.members(groupId, after, limit)),
    addToGroup: (groupId, members) => writeOnce(() => groups.addToGroup(groupId, members)),
  };
}
