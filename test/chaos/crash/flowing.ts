/** The operations of workflows: steps, children, waits and their ends, events, chains. */
import { setTimeout as sleep } from "node:timers/promises";
import type { NewStep, Wait } from "../../../src/features/workflows/contract.ts";
import type { Queue } from "../../../src/index.ts";
import { prepare } from "../../../src/queue/enqueue.ts";
import type { TaskRecord } from "../../../src/task.ts";
import { chore } from "../../fixtures/tasks.ts";
import { type ManualWorker, outcome, storeOf } from "./manual-worker.ts";
import { type Actor, type Operation, onQueue } from "./operation.ts";

const stepNamed = (name: string, seq: number): NewStep => {
  return { name, seq, value: '"stored"', error: null, startedAt: null };
};

const childNamed = (name: string, seq: number) => {
  return { name, seq, task: prepare(chore.with({ priority: 9 }), [0, "return"], 1_000).task };
};

/** A wait for a time that comes soon, so that a worker ends it after any kill. */
const soon: Wait = { name: "soon", kind: "time", target: null, until: { after: 1 }, mode: null };

/** A wait for an event, which ends without it, too. */
const forEvent: Wait = { name: "go", kind: "event", target: "go", until: { after: 200 }, mode: null };

/** A worker that runs one task. */
async function running(queue: Queue, actor: Actor): Promise<{ worker: ManualWorker; held: TaskRecord }> {
  const worker = await actor.worker(queue);
  const [held] = await worker.hold(1);
  if (!held) throw new Error("there was nothing to claim");
  return { worker, held };
}

/** A task that has started a child. `park` makes it wait for that. */
async function parent(queue: Queue, actor: Actor) {
  const { worker, held } = await running(queue, actor);
  const { workflows } = storeOf(queue);
  const [child] = (await workflows.write(held, [stepNamed("before", 1)], [childNamed("child", 2)])) ?? [];
  if (!child) throw new Error("no child was started");
  const wait: Wait = { name: "child", kind: "child", target: String(child.id), until: null, mode: "all:1" };
  const park = async () => {
    if (!(await workflows.wait(held, [wait], true))?.parked) throw new Error("the task was not parked");
  };
  return { worker, held, park };
}

const steps: readonly Operation[] = [
  // A task is marked as one with steps before its first one.
  onQueue("store the first step of a task", 2, async (queue, actor) => {
    const { held } = await running(queue, actor);
    actor.arm();
    await storeOf(queue).workflows.write(held, [stepNamed("first", 1)], []);
  }),

  onQueue("store another step", 1, async (queue, actor) => {
    const { held } = await running(queue, actor);
    await storeOf(queue).workflows.write(held, [stepNamed("first", 1)], []);
    actor.arm();
    await storeOf(queue).workflows.write(held, [stepNamed("second", 2)], []);
  }),

  onQueue("store steps and start children", 1, async (queue, actor) => {
    const { held } = await running(queue, actor);
    const children = [childNamed("one", 3), childNamed("two", 4)];
    actor.arm();
    await storeOf(queue).workflows.write(held, [stepNamed("first", 1), stepNamed("second", 2)], children);
  }),

  onQueue("retry from a step", 1, async (queue, actor) => {
    const { worker, held } = await running(queue, actor);
    await storeOf(queue).workflows.write(held, [stepNamed("first", 1), stepNamed("second", 2)], []);
    await worker.turn([outcome(held, "failed")], 0);
    actor.arm();
    await queue.retryTask(held.id, { fromStep: "second" });
  }),
];

const waits: readonly Operation[] = [
  onQueue("park a task that waits for a time", 1, async (queue, actor) => {
    const { held } = await running(queue, actor);
    actor.arm();
    await storeOf(queue).workflows.wait(held, [soon], true);
  }),

  onQueue("end a wait whose time is over", 1, async (queue, actor) => {
    const { held } = await running(queue, actor);
    await storeOf(queue).workflows.wait(held, [soon], true);
    await sleep(20);
    actor.arm();
    await storeOf(queue).workflows.endDue(10);
  }),

  onQueue("emit an event that a task waits for", 1, async (queue, actor) => {
    const { held } = await running(queue, actor);
    await storeOf(queue).workflows.wait(held, [forEvent], true);
    actor.arm();
    await queue.emitEvent("go", { n: 1 });
  }),

  onQueue("park a task that waits for its child", 1, async (queue, actor) => {
    const { park } = await parent(queue, actor);
    actor.arm();
    await park();
  }),

  onQueue("end a child for which its parent waits", 1, async (queue, actor) => {
    const { worker, park } = await parent(queue, actor);
    await park();
    const [child] = await worker.claim(1);
    if (!child) throw new Error("there was no child to claim");
    actor.arm();
    await worker.turn([outcome(child, "completed")], 0);
  }),

  onQueue("cancel a tree", 1, async (queue, actor) => {
    const { held, park } = await parent(queue, actor);
    await park();
    actor.arm();
    await queue.cancelTask(held.id);
  }),

  onQueue("enqueue a chain", 1, async (queue, actor) => {
    actor.arm();
    const { ids } = await queue.enqueueChain([
      [chore, 0, "return"],
      [chore, 0, "return"],
    ]);
    actor.acknowledged(...ids);
  }),

  onQueue("end a task for which the next of its chain waits", 1, async (queue, actor) => {
    const first = chore.with({ priority: 9 });
    await queue.enqueueChain([
      [first, 0, "return"],
      [chore, 0, "return"],
    ]);
    const worker = await actor.worker(queue);
    const held = await worker.claim(1);
    actor.arm();
    await worker.turn(
      held.map((record) => outcome(record, "completed")),
      0,
    );
  }),
];

export const flowing: readonly Operation[] = [...steps, ...waits];
