/** The encrypted values of workflows. */
import { cutTexts } from "../../base/values/cut-texts.ts";
import { hasSealed } from "../../base/values/sealed.ts";
import type { NewTask } from "../../store.ts";
import {
  type NewGroup,
  type StoredStep,
  stepJson,
  type WorkflowStore,
  type WorkflowWrites,
} from "../workflows/contract.ts";
import type { Claims } from "./claims.ts";
import { empty, resultPlace, type Sealer } from "./sealer.ts";
import { eventPlace, openStep, sealStep, stepPlace } from "./steps.ts";
import { openAll, openOperated, toInsert } from "./tasks.ts";

export function encryptedWrites(inner: WorkflowWrites, sealer: Sealer, claims: Claims): WorkflowWrites {
  return {
    storeStep: (task, step) =>
      inner.storeStep(task, claims.seals(task.id) ? sealStep(sealer, task.id, step) : step),
    storeUndo: (task, name, state, error) => {
      const place = stepPlace("undo_error", task.id, name);
      return inner.storeUndo(
        task,
        name,
        state,
        claims.seals(task.id) ? sealer.sealOrNull(error, place) : error,
      );
    },
    emit: (name, payload) => inner.emit(name, sealer.seal(payload, eventPlace(name))),
    insertGroup: (group) => inner.insertGroup(groupToInsert(sealer, group)),
    insertChain: (tasks) => inner.insertChain(chainToInsert(sealer, tasks)),
  };
}

const groupToInsert = (sealer: Sealer, { members, next, cancels }: NewGroup): NewGroup => ({
  members: toInsert(sealer, members),
  next: next && sealer.toInsert(next),
  cancels,
});

/**
 * The arguments of a link name the task before it, whose result is put behind them: no other result opens there. A link behind an
 * encrypted one is encrypted, too.
 * @throws TypeError where an encrypted value would be required of a function that has none
 */
function chainToInsert(sealer: Sealer, tasks: readonly NewTask[]): NewTask[] {
  const ids: (number | undefined)[] = [];
  return tasks.map((task, i) => {
    const before = tasks[i - 1];
    const isCovered = sealer.covers(task.func);
    const followsCovered = before !== undefined && sealer.covers(before.func);
    if (sealer.required && isCovered && before && !followsCovered)
      throw new TypeError(
        `the chain: ${task.func} requires encrypted arguments, and gets the result of ${before.func}, which is not encrypted: add it to encryption.functions`,
      );
    const { args, kwargs } = task;
    const textsOf = (id: number) => {
      ids[i] = id;
      if (!isCovered && !followsCovered) return { args, kwargs };
      return sealer.sealCall("dbq_tasks", id, task, followsCovered ? ids[i - 1] : undefined);
    };
    return { ...task, ...empty, textsOf };
  });
}

type StepReads = Pick<WorkflowStore, "steps" | "firstSteps" | "step">;

function encryptedSteps(inner: StepReads, open: (taskId: number, step: StoredStep) => StoredStep): StepReads {
  const isPart = ({ cut, ...texts }: StoredStep) =>
    stepJson.some((field) => cut?.[field] !== undefined && hasSealed(texts[field] ?? ""));
  const openedBeginning = async (taskId: number, step: StoredStep, characters: number) => {
    if (!isPart(step)) return open(taskId, step);
    const whole = open(taskId, (await inner.step(taskId, step.name)) ?? step);
    const cut = cutTexts(whole, stepJson, characters);
    return { ...whole, cut };
  };
  return {
    steps: async (taskId) => (await inner.steps(taskId)).map((step) => open(taskId, step)),
    firstSteps: async (taskId, limit, characters) => {
      const found = await inner.firstSteps(taskId, limit, characters);
      if (characters === undefined) return found.map((step) => open(taskId, step));
      const steps: StoredStep[] = [];
      // One after the other: of those that are very large, one is in memory.
      for (const step of found) steps.push(await openedBeginning(taskId, step, characters));
      return steps;
    },
    step: async (taskId, name) => {
      const step = await inner.step(taskId, name);
      return step && open(taskId, step);
    },
  };
}

export function encryptedWorkflows(inner: WorkflowStore, sealer: Sealer, claims: Claims): WorkflowStore {
  const open = (taskId: number, step: StoredStep) => openStep(sealer, taskId, step, claims.requires(taskId));
  return {
    ...inner,
    ...encryptedSteps(inner, open),
    writes: encryptedWrites(inner.writes, sealer, claims),
    write: (task, steps, children) =>
      inner.write(
        task,
        claims.seals(task.id) ? steps.map((step) => sealStep(sealer, task.id, step)) : steps,
        children.map((child) => ({ ...child, task: sealer.toInsert(child.task) })),
      ),
    keepEnds: (task, ends) =>
      inner.keepEnds(task, claims.seals(task.id) ? ends.map((end) => sealStep(sealer, task.id, end)) : ends),
    wait: async (task, waits, park) => {
      const waited = await inner.wait(task, waits, park);
      if (!waited) return undefined;
      const required = sealer.required && sealer.coversAll;
      return {
        ...waited,
        steps: waited.steps.map((step) => open(task.id, step)),
        completed: waited.completed.map(({ id, result }) => ({
          id,
          result: result && sealer.open(result, resultPlace(id), required),
        })),
        ended: openAll(sealer, waited.ended),
      };
    },
    retryFrom: async (taskId, step) => openOperated(sealer, await inner.retryFrom(taskId, step)),
    undoAgain: async (taskId) => openOperated(sealer, await inner.undoAgain(taskId)),
    takeUndoable: async (taskIds, workerId, most) => {
      const taken = await inner.takeUndoable(taskIds, workerId, most);
      claims.claimed(taken);
      return openAll(sealer, taken);
    },
    members: async (groupId, after, limit) => openAll(sealer, await inner.members(groupId, after, limit)),
    addToGroup: (groupId, members) => inner.addToGroup(groupId, toInsert(sealer, members)),
  };
}
