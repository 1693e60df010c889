/** How workflows join a store: what they do when a task ends, is cancelled, run again or removed; and their methods. */
import type { MaybePromise } from "../../../store.ts";
import type { CoreOperations } from "../../../stores/sql/operations.ts";
import type { Program, Runner } from "../../../stores/sql/program.ts";
import { groupFunction, type WorkflowStore, type WorkflowWrites } from "../contract.ts";
import { UndoOperations } from "./undo.ts";
import { WorkflowOperations } from "./workflows.ts";

export type { UndoOperations, WorkflowOperations };

export function workflowsOf({ texts, transitions, tasks, maintenance }: CoreOperations) {
  const undo = new UndoOperations(texts, tasks);
  const workflows = new WorkflowOperations(texts, transitions, tasks, undo);
  maintenance.onRemove = (ids) => workflows.removeOf(ids);
  transitions.onEnd = (ended) => workflows.onEnd(ended);
  transitions.holdUp = (ending) => undo.holdUp(ending);
  tasks.isFixed = ({ func }) => func === groupFunction;
  tasks.onCancel = (record, error) => workflows.cancelTree(record, error);
  tasks.onRetry = (id) => undo.onRetry(id);
  return { workflows, undo };
}

/** The writes of workflows, by transactions of the store or inside of an app's. */
export function workflowWrites(
  write: <T>(op: () => Program<T>) => MaybePromise<T>,
  ops: WorkflowOperations,
  undo: UndoOperations,
): WorkflowWrites {
  return {
    storeStep: (task, step) => write(() => ops.storeStep(task, step)),
    storeUndo: (task, name, state, error) => write(() => undo.storeUndo(task, name, state, error)),
    emit: (name, payload) => write(() => ops.emit(name, payload)),
    insertGroup: (group) => write(() => ops.insertGroup(group)),
    insertChain: (tasks) => write(() => ops.insertChain(tasks)),
  };
}

export function workflowMethods(
  { run, write }: Runner,
  ops: WorkflowOperations,
  undo: UndoOperations,
): WorkflowStore {
  return {
    writes: workflowWrites(write, ops, undo),
    steps: (taskId) => run(() => ops.steps(taskId)),
    firstSteps: (taskId, limit) => run(() => ops.firstSteps(taskId, limit)),
    lastActive: (steps) => run(() => ops.lastActive(steps)),
    waits: (taskIds) => run(() => ops.waits(taskIds)),
    openWaits: (taskIds, limit) => run(() => ops.openWaits(taskIds, limit)),
    firstWaits: (taskIds, limit) => run(() => ops.firstWaits(taskIds, limit)),
    lastWaiting: (waits) => run(() => ops.lastWaiting(waits)),
    waitingFor: (target, limit) => run(() => ops.waitingFor(target, limit)),
    write: (task, steps, children) => run((tries) => ops.write(task, steps, children, tries > 0)),
    forget: (task, names) => write(() => ops.forget(task, names)),
    keepEnds: (task, ends) => write(() => ops.keepEnds(task, ends)),
    wait: (task, waits, park) => write(() => ops.wait(task, waits, park)),
    endDue: (limit) => write(() => ops.endDue(limit)),
    repair: (after, limit) => write(() => ops.repair(after, limit)),
    pruneEvents: (age, limit) => write(() => ops.pruneEvents(age, limit)),
    children: (taskIds, limit) => run(() => ops.children(taskIds, limit)),
    retryFrom: (taskId, step) => write(() => ops.retryFrom(taskId, step)),
    hasUndos: (taskId) => run(() => undo.hasUndos(taskId)),
    undoRuns: (taskId) => run(() => undo.runs(taskId)),
    undoable: (runs, limit) => run(() => undo.undoable(runs, limit)),
    takeUndoable: (taskIds, workerId, most) => write(() => undo.take(taskIds, workerId, most)),
    letUndo: (task) => write(() => undo.letUndo(task)),
    undoAgain: (taskId) => write(() => undo.undoAgain(taskId)),
    groupCounts: (groupId) => run(() => ops.groupCounts(groupId)),
    groupOf: (taskId) => run(() => ops.groupOf(taskId)),
    members: (groupId, after, limit) => run(() => ops.members(groupId, after, limit)),
    addToGroup: (groupId, members) => write(() => ops.addToGroup(groupId, members)),
  };
}
