/**
 * What workflows promise, without SQL: which tasks wait, for what, and what the end of one means for the others. Each operation happens
 * at once and as a whole. Where it differs from a store, one of the two is wrong.
 */
import type { UndoState, Wait } from "../../src/features/workflows/contract.ts";
import type { Outcome } from "../../src/store.ts";
import { isFinished, type TaskStatus } from "../../src/task.ts";

export type EndKind = "completed" | "failed" | "cancelled";

export interface FlowWait {
  kind: Wait["kind"];
  target: string | null;
  /** As in `Wait`; `chain`, `then`, `group:cancel` or `group:continue` for a task that has not started, or is a group. */
  mode: string | null;
  /** Milliseconds since 1970; null: its time is never over. */
  deadline: number | null;
}

export interface FlowTask {
  id: number;
  func: string;
  status: TaskStatus;
  parentId: number | null;
  args: unknown[];
  result: unknown;
  /** By name; the value of a step, or the child that it has started. */
  steps: Map<string, unknown>;
  waits: Map<string, FlowWait>;
  /** What became of the undos of steps, by name. */
  undos: Map<string, UndoState>;
  /** How it ends when its undos are over; undefined: that is not decided. */
  ending: Undoing | undefined;
  /** How often its worker has died. */
  crashes: number;
}

export interface Undoing {
  kind: "failed" | "cancelled";
  /** The worker whose attempt has to stop before; undefined: none. */
  heldBy: string | undefined;
  /** From when on an attempt may undo the steps, in milliseconds since 1970. */
  due: number;
}

export const groupName = "dbq.group";

/** Whether the first child that does not complete ends the wait for the others. */
const cuts = (mode: string) => mode.startsWith("all:") || mode === "group:cancel";

export class FlowModel {
  tasks = new Map<number, FlowTask>();
  events = new Map<string, unknown>();
  /** For names that no other step, mode or event has. */
  names = 0;
  /** The only worker, and how many there were. */
  workers = 1;

  get workerId(): string {
    return `w${this.workers}`;
  }

  newName(start: string): string {
    this.names += 1;
    return `${start} ${this.names}`;
  }

  of(id: number): FlowTask {
    const task = this.tasks.get(id);
    if (!task) throw new Error(`the model has no task ${id}`);
    return task;
  }

  /** Without groups, and without those that undo their steps. */
  with(status: TaskStatus): FlowTask[] {
    return [...this.tasks.values()].filter(
      (task) => task.status === status && task.func !== groupName && !task.ending,
    );
  }

  /** Tasks that are to end when their undos are over. */
  undoing(status: "scheduled" | "running"): (FlowTask & { ending: Undoing })[] {
    const isOne = (task: FlowTask): task is FlowTask & { ending: Undoing } =>
      task.status === status && task.ending !== undefined;
    return [...this.tasks.values()].filter(isOne);
  }

  add(id: number, changes: Partial<FlowTask> = {}): FlowTask {
    const task: FlowTask = {
      ...{ id, func: "resize", status: "pending", parentId: null, args: [], result: null },
      ...{ steps: new Map(), waits: new Map(), undos: new Map(), ending: undefined, crashes: 0 },
      ...changes,
    };
    this.tasks.set(id, task);
    return task;
  }

  childrenOf(id: number): FlowTask[] {
    return [...this.tasks.values()].filter(({ parentId }) => parentId === id);
  }

  // ---- ends ------------------------------------------------------------------------------------

  /** A task with steps to undo does not end yet. `stillRuns`: its function does. */
  end(task: FlowTask, kind: EndKind, result: unknown = null, stillRuns = false): void {
    if (kind !== "completed" && [...task.undos.values()].includes("wanted"))
      this.#holdUp(task, kind, stillRuns);
    else this.#endNow(task, kind, result);
  }

  #holdUp(task: FlowTask, kind: Undoing["kind"], stillRuns: boolean): void {
    task.status = "scheduled";
    task.waits.clear();
    task.ending = { kind, heldBy: stillRuns ? this.workerId : undefined, due: Date.now() };
  }

  #endNow(task: FlowTask, kind: EndKind, result: unknown = null): void {
    task.ending = undefined;
    task.status = kind;
    task.result = result;
    const parent = task.parentId === null ? undefined : this.tasks.get(task.parentId);
    if (parent) this.#childEnded(parent, task, kind);
  }

  cancel(id: number, alone: boolean): void {
    const task = this.of(id);
    if (isFinished(task.status) || task.ending) return;
    this.end(task, "cancelled", null, task.status === "running");
    if (!alone) this.#cancelTree(id);
  }

  #cancelTree(id: number): void {
    for (const child of this.childrenOf(id)) {
      if (!isFinished(child.status) && !child.ending)
        this.end(child, "cancelled", null, child.status === "running");
      this.#cancelTree(child.id);
    }
  }

  // ---- undos -----------------------------------------------------------------------------------

  /** @returns the ids of those that undo their steps now */
  takeUndoable(now: number): number[] {
    const due = this.undoing("scheduled").filter(({ ending }) => ending.due <= now);
    const taken: number[] = [];
    for (const task of due) {
      const { kind, heldBy } = task.ending;
      if (heldBy === this.workerId || (kind === "cancelled" && this.#hasUndoingBelow(task.id))) {
        task.ending.due = now + 500;
        continue;
      }
      task.ending = { kind, heldBy: undefined, due: Number.POSITIVE_INFINITY };
      task.status = "running";
      taken.push(task.id);
    }
    return taken;
  }

  #hasUndoingBelow(id: number): boolean {
    return this.childrenOf(id).some(
      (child) => (!isFinished(child.status) && child.ending) || this.#hasUndoingBelow(child.id),
    );
  }

  /** @param outcome of an attempt to undo */
  undoEnded(task: FlowTask, { kind, ending }: Outcome): void {
    const isLeft = [...task.undos.values()].includes("wanted");
    if (kind === "interrupted") this.#undoLater(task, 0);
    else if (ending === "goes on" || (isLeft && ending === undefined)) this.#undoLater(task, 5_000);
    else this.#endNow(task, kind as EndKind);
  }

  #undoLater(task: FlowTask, delay: number): void {
    if (!task.ending) return;
    task.status = "scheduled";
    task.ending = { ...task.ending, due: Date.now() + delay };
  }

  /** The worker dies, and another one comes. A task ends that has no retry left. */
  crash(maxRetries: number): void {
    this.workers += 1;
    for (const task of this.undoing("running")) this.#undoLater(task, 0);
    for (const task of this.with("running")) {
      task.crashes += 1;
      if (task.crashes > maxRetries) this.end(task, "failed");
      else task.status = "pending";
    }
  }

  #childEnded(parent: FlowTask, child: FlowTask, kind: EndKind): void {
    for (const [name, { kind: of, target, mode }] of [...parent.waits]) {
      if (of !== "child" || Number(target) !== child.id) continue;
      parent.waits.delete(name);
      if (mode === null) this.#wake(parent);
      else if (mode === "chain" || mode === "then") this.#follow(parent, child, mode);
      else this.#oneOfManyEnded(parent, mode, kind);
    }
  }

  #oneOfManyEnded(parent: FlowTask, mode: string, kind: EndKind): void {
    const isCut = kind !== "completed" && cuts(mode);
    if (isCut)
      for (const [name, wait] of [...parent.waits]) if (wait.mode === mode) parent.waits.delete(name);
    if ([...parent.waits.values()].some((wait) => wait.mode === mode)) return;
    if (parent.func === groupName) this.#endGroup(parent, isCut);
    else this.#wake(parent);
  }

  #endGroup(group: FlowTask, isCut: boolean): void {
    if (group.status !== "waiting") return;
    if (!isCut) {
      this.end(group, "completed");
      return;
    }
    this.end(group, "cancelled");
    for (const member of this.childrenOf(group.id)) {
      if (!["pending", "scheduled", "waiting"].includes(member.status)) continue;
      if (!member.ending) this.end(member, "cancelled");
      this.#cancelTree(member.id);
    }
  }

  #follow(task: FlowTask, before: FlowTask, mode: string): void {
    if (task.status !== "waiting") return;
    if (before.status !== "completed") {
      this.end(task, "cancelled");
      return;
    }
    task.status = "pending";
    if (mode === "chain") task.args = [...task.args, before.result];
  }

  #wake(task: FlowTask): void {
    if (task.status === "waiting") task.status = "pending";
  }

  // ---- steps, waits and events -------------------------------------------------------------------

  /** @returns whether the task is parked */
  wait(task: FlowTask, waits: readonly Wait[], now: number): boolean {
    let hasStep = false;
    const added = new Map<string, FlowWait>();
    const over: Wait[] = [];
    for (const wait of waits) {
      const stored = task.waits.get(wait.name);
      if (wait.kind === "child") {
        const isOver = !stored && isFinished(this.of(Number(wait.target)).status);
        if (isOver) over.push(wait);
        else if (!stored) added.set(wait.name, toFlowWait(wait, now));
      } else if (this.#isOver(task, wait, stored, now)) hasStep = true;
      else if (!stored) added.set(wait.name, toFlowWait(wait, now));
    }
    for (const [name, wait] of added) task.waits.set(name, wait);
    const open = new Set(waits.filter((one) => !over.includes(one)).map(({ mode }) => mode));
    const wakes = over.some(
      ({ mode, target }) =>
        mode === null || !open.has(mode) || (cuts(mode) && this.of(Number(target)).status !== "completed"),
    );
    if (hasStep || wakes) return false;
    task.status = "waiting";
    return true;
  }

  /** An event or a time: then it is a step. */
  #isOver({ steps, waits }: FlowTask, wait: Wait, stored: FlowWait | undefined, now: number): boolean {
    const { name, target } = wait;
    if (stored) {
      if (stored.deadline === null || stored.deadline > now) return false;
      waits.delete(name);
      if (!steps.has(name)) steps.set(name, null);
      return true;
    }
    if (steps.has(name)) return true;
    if (wait.kind !== "event" || !this.events.has(target ?? "")) return false;
    steps.set(name, this.events.get(target ?? ""));
    return true;
  }

  emit(event: string, payload: unknown): boolean {
    if (this.events.has(event)) return false;
    this.events.set(event, payload);
    this.#endWaits((wait) => wait.kind === "event" && wait.target === event, payload);
    return true;
  }

  endDue(now: number): void {
    this.#endWaits(({ deadline }) => deadline !== null && deadline <= now, null);
  }

  #endWaits(isOver: (wait: FlowWait) => boolean, value: unknown): void {
    for (const task of this.tasks.values())
      for (const [name, wait] of [...task.waits]) {
        if (!isOver(wait)) continue;
        task.waits.delete(name);
        if (isFinished(task.status)) continue;
        if (!task.steps.has(name)) task.steps.set(name, value);
        this.#wake(task);
      }
  }

  // ---- groups and chains -------------------------------------------------------------------------

  /** @param ids that of the task behind it, if there is one, of the group, and of its members */
  group(ids: readonly number[], cancels: boolean, hasNext: boolean): void {
    const [next, id] = hasNext ? [ids[0] as number, ids[1] as number] : [null, ids[0] as number];
    const members = ids.slice(hasNext ? 2 : 1);
    const group = this.add(id, { func: groupName, status: "waiting", parentId: next });
    if (next !== null)
      this.add(next, { status: "waiting", waits: new Map([["group", waitFor(id, "then")]]) });
    const mode = cancels ? "group:cancel" : "group:continue";
    for (const member of members) {
      this.add(member, { parentId: id });
      group.waits.set(`task ${member}`, waitFor(member, mode));
    }
    if (members.length === 0) this.#endGroup(group, false);
  }

  addToGroup(id: number, members: readonly number[]): void {
    const { waits } = this.of(id);
    const mode = [...waits.values()][0]?.mode ?? "group:continue";
    for (const member of members) {
      this.add(member, { parentId: id });
      waits.set(`task ${member}`, waitFor(member, mode));
    }
  }

  chain(ids: readonly number[]): void {
    for (const [i, id] of ids.entries()) {
      const before = ids[i - 1];
      const task = this.add(id, { parentId: ids[i + 1] ?? null });
      if (before === undefined) continue;
      task.status = "waiting";
      task.waits.set(`task ${before}`, waitFor(before, "chain"));
    }
  }
}

const waitFor = (id: number, mode: string): FlowWait => ({
  ...{ kind: "child", target: String(id), mode, deadline: null },
});

function toFlowWait({ kind, target, mode, until }: Wait, now: number): FlowWait {
  const deadline = until === null ? null : "at" in until ? until.at : now + until.after;
  return { kind, target, mode, deadline };
}
