/** The steps of the model of workflows, done on a store and on the model. */
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import * as fc from "fast-check";
import { vi } from "vitest";
import type { Wait } from "../../src/features/workflows/contract.ts";
import { manyChildren, rangeIn } from "../../src/features/workflows/sql/fan-in.ts";
import type { Outcome } from "../../src/store.ts";
import { isFinished, type TaskStatus } from "../../src/task.ts";
import { claimBy, errorText, failedAttempt, newTask, newWorker } from "../conformance/arrange.ts";
import { drawnFault } from "./drawn-fault.ts";
import { FailingStep } from "./failing-step.ts";
import type { Fault, RealStore, Row } from "./real-store.ts";
import { type EndKind, type FlowModel, type FlowTask, groupName } from "./workflow-model.ts";

const parsed = (text: unknown) => (text === null || text === undefined ? null : JSON.parse(String(text)));

// ---- what both have --------------------------------------------------------------------------------

interface State {
  tasks: Record<number, unknown>;
  steps: Record<string, unknown>;
  /** Of tasks that wait: the targets, by name of the wait; of many children together, by their mode. */
  waits: string[];
  events: Record<string, unknown>;
  undos: Record<string, unknown>;
  /** The ids of the tasks that are to end when their undos are over. */
  undoing: number[];
}

async function stateOf(real: RealStore): Promise<State> {
  const { tasks } = await real.rows();
  const [steps, waits, events] = [
    await real.read("dbq_steps"),
    await real.read("dbq_waits"),
    await real.read("dbq_events"),
  ];
  const byId = new Map(tasks.map((task) => [Number(task.id), task]));
  return {
    tasks: Object.fromEntries(
      tasks.map(({ id, func, status, parentId, args }) => [
        Number(id),
        [func, status, parentId === null ? null : Number(parentId), parsed(args)],
      ]),
    ),
    steps: Object.fromEntries(
      steps.map(({ taskId, name, value, childId }) => [
        `${taskId} ${name}`,
        childId === null ? parsed(value) : `child ${childId}`,
      ]),
    ),
    undos: Object.fromEntries(
      steps
        .filter(({ childId }) => childId === null)
        .map(({ taskId, name, undoState }) => [`${taskId} ${name}`, undoState]),
    ),
    undoing: waits
      .filter(
        ({ taskId, kind }) => kind === "undo" && !isFinished(byId.get(Number(taskId))?.status as TaskStatus),
      )
      .map(({ taskId }) => Number(taskId))
      .sort((a, b) => a - b),
    waits: waits
      .filter(({ taskId }) => byId.get(Number(taskId))?.status === "waiting")
      .flatMap((wait) => targetsOf(wait, tasks))
      .sort(),
    events: Object.fromEntries(
      events
        .filter(({ emittedAt }) => emittedAt !== null)
        .map(({ name, payload }) => [name, parsed(payload)]),
    ),
  };
}

/** What one row waits for: a row for many children waits for each of them that has not ended. */
function targetsOf({ taskId, target, mode }: Row, tasks: readonly Row[]): string[] {
  const range = rangeIn(mode as string | null);
  if (!range) return [`${taskId} for ${target} ${mode}`];
  const open = tasks
    .filter(
      ({ parentId, status }) => Number(parentId) === Number(taskId) && !isFinished(status as TaskStatus),
    )
    .map(({ id }) => Number(id))
    .filter((id) => range.first <= id && id <= range.last);
  assert.equal(
    Number(target),
    Math.max(...open),
    "a wait for many children names the last that has not ended",
  );
  return open.map((id) => `${taskId} for ${id} ${range.mode}`);
}

function expectedOf(model: FlowModel): State {
  const all = [...model.tasks.values()];
  return {
    tasks: Object.fromEntries(
      all.map(({ id, func, status, parentId, args }) => [id, [func, status, parentId, args]]),
    ),
    steps: Object.fromEntries(
      all.flatMap(({ id, steps }) => [...steps].map(([name, value]) => [`${id} ${name}`, value])),
    ),
    waits: all
      .filter(({ status }) => status === "waiting")
      .flatMap(({ id, waits }) =>
        [...waits.values()].map(({ target, mode }) => `${id} for ${target} ${mode}`),
      )
      .sort(),
    events: Object.fromEntries(model.events),
    undos: Object.fromEntries(
      all.flatMap(({ id, steps, undos }) =>
        [...steps]
          .filter(([, value]) => !String(value).startsWith("child "))
          .map(([name]) => [`${id} ${name}`, undos.get(name) ?? null]),
      ),
    ),
    undoing: all.filter(({ ending }) => ending).map(({ id }) => id),
  };
}

// ---- a step ----------------------------------------------------------------------------------------

interface Operation {
  text: string;
  real: (real: RealStore) => Promise<unknown>;
  /** @param ids of the tasks that the store has inserted. The answer that is expected, if it matters. */
  model: (model: FlowModel, ids: readonly number[]) => unknown;
}

/** Undefined: there is nothing to do it with. Then work is made for the steps to come. */
type Draw = (model: FlowModel) => Operation | undefined;

class Step extends FailingStep<FlowModel> {
  readonly #draw: Draw;

  constructor(draw: Draw, fault?: Fault) {
    super(fault);
    this.#draw = draw;
  }

  async run(model: FlowModel, real: RealStore): Promise<void> {
    const operation =
      this.#draw(model) ?? (model.with("pending").length > 0 ? claimOf(model, 200) : enqueued);
    this.text = operation.text;
    const { answer, failed } = await this.call(real, () => operation.real(real));
    const state = await stateOf(real);
    assert.equal(real.inTransaction, false);
    // A call that fails may have happened, if only a read after it has failed. Nothing in between.
    if (failed && isDeepStrictEqual(state, expectedOf(model))) return;
    const ids = Object.keys(state.tasks)
      .map(Number)
      .filter((id) => !model.tasks.has(id))
      .sort((a, b) => a - b);
    const expected = operation.model(model, ids);
    assert.deepStrictEqual(state, expectedOf(model));
    if (!failed && expected !== undefined) assert.deepStrictEqual(answer, expected);
  }
}

// ---- the operations --------------------------------------------------------------------------------

const versionOf = async (real: RealStore, id: number) => {
  const [record] = await real.store.get([id]);
  assert.ok(record, `there is a task ${id}`);
  return record;
};

const chosen = <T>(all: readonly T[], nth: number): T | undefined => all[nth % Math.max(1, all.length)];

const nth = fc.nat(1_000);

/** Few, or so many that a task has one wait for them. */
const children = fc.constantFrom(manyChildren + 1, 1, 2, 3);

const enqueued: Operation = {
  text: "enqueue",
  real: async (real) => void (await real.store.insert([newTask()], "report")),
  model: (model, ids) => void model.add(ids[0] as number),
};

/** Claims some of what is pending. */
function claimOf({ workerId }: FlowModel, limit: number): Operation {
  const got: number[] = [];
  return {
    text: `claim(${limit})`,
    real: async (real) => {
      // On a server a claim may leave some for the next one, and says so.
      for (let more = true; more && got.length < limit; ) {
        const claim = claimBy(workerId, { limit: limit - got.length });
        const result = await real.store.settleAndClaim({ outcomes: [], claim });
        got.push(...result.claimed.map(({ id }) => id));
        more = result.more;
      }
    },
    model: (model) => {
      assert.equal(got.length, Math.min(limit, model.with("pending").length));
      for (const id of got) {
        assert.equal(model.of(id).status, "pending");
        model.of(id).status = "running";
      }
    },
  };
}

const claimed = fc.constantFrom(200, 1, 2).map((limit) => (model: FlowModel) => claimOf(model, limit));

const stepped = fc.tuple(nth, fc.boolean()).map(([which, undoes]) => (model: FlowModel) => {
  const task = chosen(model.with("running"), which);
  return task && stepOf(model, task, undoes);
});

function stepOf(model: FlowModel, task: FlowTask, undoes: boolean): Operation {
  const name = model.newName("step");
  return {
    text: `step(${task.id}${undoes ? ", with an undo" : ""})`,
    real: async (real: RealStore) => {
      const step = newStep(name, task, undoes);
      return (await real.store.workflows.write(await versionOf(real, task.id), [step], [])) !== undefined;
    },
    model: () => storeStep(model, task.id, name, undoes),
  };
}

const newStep = (name: string, { steps }: FlowTask, undoes: boolean) => ({
  ...{ name, seq: steps.size + 1, value: '"done"', error: null, startedAt: null, undoes },
});

function storeStep(model: FlowModel, id: number, name: string, undoes: boolean): boolean {
  model.of(id).steps.set(name, "done");
  if (undoes) model.of(id).undos.set(name, "wanted");
  return true;
}

const started = fc.tuple(nth, children).map(([which, count]) => (model: FlowModel) => {
  const task = chosen(model.with("running"), which);
  if (!task) return undefined;
  // Very many that follow one another are one row.
  const base = model.newName("child");
  const names = Array.from({ length: count }, (_, i) => (i === 0 ? base : `${base}#${i + 1}`));
  return {
    text: `start(${task.id}, ${count})`,
    real: async (real: RealStore) => {
      const starts = names.map((name, i) => ({ name, seq: task.steps.size + 1 + i, task: newTask() }));
      await real.store.workflows.write(await versionOf(real, task.id), [], starts);
    },
    model: (_: FlowModel, ids: readonly number[]) => {
      for (const [i, id] of ids.entries()) {
        model.add(id, { parentId: task.id });
        model.of(task.id).steps.set(names[i] as string, `child ${id}`);
      }
    },
  };
});

/** The children that the task waits for already, as a function that runs again comes to them, and others of one kind. */
const awaited = fc
  .record({
    which: nth,
    kind: fc.constantFrom("null", "all", "settled"),
    share: fc.constantFrom(1, 2),
    event: fc.boolean(),
    time: fc.boolean(),
  })
  .map(({ which, kind, share, event, time }) => (model: FlowModel) => {
    const task = chosen(model.with("running"), which);
    if (!task) return undefined;
    const mode = kind === "null" ? null : model.newName(`${kind}:`).replace(" ", "");
    const waits = waitsOf(model, task, mode, share);
    if (event) waits.push({ name: "event", kind: "event", target: "paid", until: null, mode: null });
    if (time) waits.push({ name: "time", kind: "time", target: null, until: { after: 60_000 }, mode: null });
    if (waits.length === 0) return undefined;
    return {
      text: `wait(${task.id}, ${waits.length} of them ${mode})`,
      real: async (real: RealStore) =>
        (await real.store.workflows.wait(await versionOf(real, task.id), waits, true))?.parked,
      model: () => model.wait(model.of(task.id), waits, Date.now()),
    };
  });

function waitsOf(model: FlowModel, task: FlowTask, mode: string | null, share: number): Wait[] {
  const again = [...task.waits].map(
    ([name, { kind, target, mode: own }]): Wait => ({
      ...{ name, kind, target, until: kind === "time" ? { after: 60_000 } : null, mode: own },
    }),
  );
  const known = new Set(again.map(({ name }) => name));
  const rest = model
    .childrenOf(task.id)
    .filter((_, i) => i % share === 0)
    .map(({ id }): Wait => ({ name: `child ${id}`, kind: "child", target: String(id), until: null, mode }))
    .filter(({ name }) => !known.has(name));
  return [...again, ...rest];
}

const kinds: Record<EndKind, (task: FlowTask, of: Awaited<ReturnType<typeof versionOf>>) => Outcome> = {
  completed: ({ id }, of) => ({ ...ownerOf(of), kind: "completed", result: String(id) }),
  failed: (_, of) => ({ ...ownerOf(of), kind: "failed", error: errorText, attempt: failedAttempt }),
  cancelled: (_, of) => ({ ...ownerOf(of), kind: "cancelled", error: errorText, attempt: undefined }),
};

/** What a worker knows of its task; without its parent, the store looks that up. */
const ownerOf = ({
  id,
  generationId,
  workerId,
  startedAt,
  parentId,
}: Awaited<ReturnType<typeof versionOf>>) => ({
  ...{ id, generationId, workerId, startedAt },
  ...(id % 2 === 0 && { parentId }),
});

/** Settles one running task, or all of them together; of these `bad` is the place of one that does not complete. */
const settled = fc
  .record({
    which: nth,
    all: fc.boolean(),
    kind: fc.constantFrom<EndKind>("failed", "completed", "completed", "cancelled"),
    bad: nth,
  })
  .map(({ which, all, kind, bad }) => (model: FlowModel) => {
    const running = model.with("running");
    const one = chosen(running, which);
    if (!one) return undefined;
    const tasks = all ? running : [one];
    const kindOf = (i: number): EndKind => (i === bad % tasks.length ? kind : "completed");
    // What the database refuses ends in another way, which the store says.
    let became: (EndKind | undefined)[] = tasks.map((_, i) => kindOf(i));
    return {
      text: `settle(${all ? `all ${tasks.length}` : one.id}, ${tasks[bad % tasks.length]?.id} ${kind})`,
      real: async (real: RealStore) => {
        const records = new Map((await real.store.get(tasks.map(({ id }) => id))).map((of) => [of.id, of]));
        const outcomes = tasks.map((task, i) => {
          const of = records.get(task.id);
          assert.ok(of);
          return kinds[kindOf(i)](task, of);
        });
        const { refused } = await real.store.settleAndClaim({ outcomes, claim: undefined });
        became = outcomes.map((one) => (refused?.has(one) ? refused.get(one)?.stored : one)?.kind as EndKind);
      },
      model: () => {
        for (const [i, { id }] of tasks.entries()) {
          const [task, how] = [model.of(id), became[i]];
          if (task.status === "running" && how) model.end(task, how, how === "completed" ? id : null);
        }
      },
    };
  });

const cancelled = fc.tuple(nth, fc.boolean()).map(([which, alone]) => (model: FlowModel) => {
  const task = chosen([...model.tasks.values()], which);
  return task && cancelOf(task.id, alone);
});

const cancelOf = (id: number, alone: boolean): Operation => ({
  text: `cancel(${id}${alone ? ", alone" : ""})`,
  real: async (real) => void (await real.store.cancel(id, errorText, alone)),
  model: (model) => model.cancel(id, alone),
});

const emitted = fc.constantFrom("paid", "paid", "shipped").map(
  (name) => (): Operation => ({
    text: `emit("${name}")`,
    real: (real) => Promise.resolve(real.store.workflows.writes.emit(name, '{"n":1}')),
    model: (model) => model.emit(name, { n: 1 }),
  }),
);

// ---- undos -----------------------------------------------------------------------------------------

/** The attempt that has to stop before the steps are undone. */
async function heldAttempt(real: RealStore, id: number) {
  const rows = await real.read("dbq_waits");
  const row = rows.find(({ taskId, kind }) => Number(taskId) === id && kind === "undo");
  const [, generationId, workerId] = String(row?.name).split(":");
  return { id, generationId: Number(generationId), workerId: workerId ?? null };
}

const held = (model: FlowModel) =>
  model.undoing("scheduled").filter(({ ending }) => ending.heldBy !== undefined);

/** The function stores a step although the end of its task is decided: that is undone, too. */
const steppedLate = nth.map((which) => (model: FlowModel) => {
  const task = chosen(held(model), which);
  if (!task) return somethingToUndo(model, which);
  const name = model.newName("step");
  return {
    text: `step(${task.id}, which is to end)`,
    real: async (real: RealStore) => {
      const attempt = await heldAttempt(real, task.id);
      return (await real.store.workflows.write(attempt, [newStep(name, task, true)], [])) !== undefined;
    },
    model: () => storeStep(model, task.id, name, true),
  };
});

/** The function of a task that is to end has stopped. */
const stopped = nth.map((which) => (model: FlowModel) => {
  const task = chosen(held(model), which);
  if (!task) return somethingToUndo(model, which);
  return {
    text: `stopped(${task.id})`,
    real: async (real: RealStore) => await real.store.workflows.letUndo(await heldAttempt(real, task.id)),
    model: () => {
      const { ending } = model.of(task.id);
      if (ending) Object.assign(ending, { heldBy: undefined, due: Date.now() });
      return true;
    },
  };
});

const taken = (model: FlowModel): Operation => ({
  text: "take what is to be undone",
  real: async ({ store: { workflows } }) => {
    const ids = await workflows.undoable(() => true, 10_000);
    const tasks = ids.length === 0 ? [] : await workflows.takeUndoable(ids, model.workerId, 10_000);
    return tasks.map(({ id }) => id).sort((a, b) => a - b);
  },
  model: () => model.takeUndoable(Date.now()),
});

/** The undo of one step is over, well or badly. */
const undone = fc
  .tuple(nth, nth, fc.constantFrom("done", "done", "failed", "unknown" as const))
  .map(([which, whichStep, state]) => (model: FlowModel) => {
    const task = chosen(model.undoing("running"), which);
    const wanted = [...(task?.undos ?? [])].filter(([, undo]) => undo === "wanted");
    const [name] = chosen(wanted, whichStep) ?? [];
    if (!task || name === undefined) return somethingToUndo(model, which);
    return {
      text: `undo(${task.id}, "${name}", ${state})`,
      real: async (real: RealStore) => {
        const error = state === "done" ? null : errorText;
        const { store } = real;
        return await store.workflows.writes.storeUndo(await versionOf(real, task.id), name, state, error);
      },
      model: () => {
        model.of(task.id).undos.set(name, state);
        return true;
      },
    };
  });

/** How an attempt to undo ends: the task with it, or not yet. */
const undoEnded = fc
  .tuple(nth, fc.constantFrom("is over", "is over", "fails", "is given back"))
  .map(([which, how]) => (model: FlowModel) => {
    const task = chosen(model.undoing("running"), which);
    if (!task) return somethingToUndo(model, which);
    const isUndone = [...task.undos.values()].every((state) => state === "done");
    const kind = isUndone ? task.ending.kind : "failed";
    let became: Outcome | undefined;
    return {
      text: `the attempt to undo ${how}(${task.id})`,
      real: async (real: RealStore) => {
        const outcome = undoOutcome(ownerOf(await versionOf(real, task.id)), how, kind);
        const { refused } = await real.store.settleAndClaim({ outcomes: [outcome], claim: undefined });
        // What the database refuses ends in another way, which the store says.
        became = refused?.has(outcome) ? refused.get(outcome)?.stored : outcome;
      },
      model: () => {
        if (became) model.undoEnded(model.of(task.id), became);
      },
    };
  });

function undoOutcome(of: ReturnType<typeof ownerOf>, how: string, kind: "failed" | "cancelled"): Outcome {
  if (how === "is over") return { ...of, kind, error: errorText, attempt: undefined, ending: "is over" };
  if (how === "is given back") return { ...of, kind: "interrupted", ending: "goes on" };
  return { ...of, kind: "failed", error: errorText, attempt: failedAttempt, ending: "goes on" };
}

/** For a step that needs a task that undoes its steps: a running one gets such a step, or is cancelled. */
function somethingToUndo(model: FlowModel, which: number): Operation | undefined {
  const running = model.with("running");
  const ready = chosen(
    running.filter(({ undos }) => undos.size > 0),
    which,
  );
  if (ready) return cancelOf(ready.id, which % 4 === 0);
  const task = chosen(running, which);
  return task && stepOf(model, task, true);
}

/** Between any two of the operations above. */
const crashed = (model: FlowModel): Operation => ({
  text: "the worker dies, and another one comes",
  real: async ({ store }) => {
    const worker = (await store.workers()).find(({ id }) => id === `w${model.workers}`);
    assert.ok(worker);
    // Those that other transactions have locked are left for the next call.
    while ((await store.rescue(worker.id, worker.beat)) !== 0);
    await store.register(newWorker(`w${model.workers + 1}`, { concurrency: 1_000 }));
  },
  model: () => model.crash(newTask().maxRetries),
});

/** Nothing is left to repair, whatever has happened. */
const repaired: Operation = {
  text: "repair",
  real: (real) => real.store.workflows.repair(0, 100_000),
  model: () => ({ woken: 0, last: undefined }),
};

const later: Operation = {
  text: "step the clock, and end what is due",
  real: async (real) => {
    vi.setSystemTime(Date.now() + 45_000);
    await real.setClock();
    await real.store.workflows.endDue(1_000);
  },
  model: (model) => model.endDue(Date.now()),
};

const grouped = fc
  .record({ count: fc.constantFrom(manyChildren + 1, 3, 1, 0), cancels: fc.boolean(), hasNext: fc.boolean() })
  .map(
    ({ count, cancels, hasNext }) =>
      (): Operation => ({
        text: `group(${count}${cancels ? ", cancels" : ""}${hasNext ? ", next" : ""})`,
        real: async (real) => {
          const members = Array.from({ length: count }, () => newTask());
          const next = hasNext ? newTask() : undefined;
          await real.store.workflows.writes.insertGroup({ members, next, cancels });
        },
        model: (model, ids) => model.group(ids, cancels, hasNext),
      }),
  );

const grown = fc
  .tuple(nth, fc.constantFrom(manyChildren + 1, 1))
  .map(([which, count]) => (model: FlowModel) => {
    const open = [...model.tasks.values()].filter(
      ({ func, status }) => func === groupName && status === "waiting",
    );
    const group = chosen(open, which);
    if (!group) return undefined;
    return {
      text: `add to group(${group.id}, ${count})`,
      real: async (real: RealStore) => {
        const members = Array.from({ length: count }, () => newTask());
        return (await real.store.workflows.addToGroup(group.id, members)) !== undefined;
      },
      model: (_: FlowModel, ids: readonly number[]) => {
        model.addToGroup(group.id, ids);
        return true;
      },
    };
  });

const chained = fc.constantFrom(1, 2, 4).map(
  (count) => (): Operation => ({
    text: `chain(${count})`,
    real: async (real) => {
      const links = Array.from({ length: count }, () => newTask());
      await real.store.workflows.writes.insertChain(links);
    },
    model: (model, ids) => model.chain(ids),
  }),
);

/** All steps for a store whose statements fail in these ways. */
export function workflowSteps(faults: readonly Fault["how"][]): fc.Arbitrary<Step>[] {
  const fault = drawnFault(faults, 12, 3);
  const failing = (drawn: fc.Arbitrary<Draw>) =>
    fc.tuple(drawn, fault).map(([draw, how]) => new Step(draw, how));
  const safe = (drawn: fc.Arbitrary<Draw>) => drawn.map((draw) => new Step(draw));
  const [begins, ends, waits] = [safe(claimed), failing(settled), failing(awaited)];
  return [
    ...[safe(fc.constant(() => enqueued)), begins, ends, ends, ends, waits, waits, waits],
    ...[failing(stepped), failing(started), failing(started), failing(cancelled), failing(emitted)],
    ...[failing(fc.constant(() => later)), failing(grouped), failing(grown), failing(chained)],
    ...[failing(steppedLate), failing(stopped), failing(fc.constant(taken)), failing(fc.constant(taken))],
    ...[failing(undone), failing(undone), failing(undoEnded), safe(fc.constant(crashed))],
    safe(fc.constant(() => repaired)),
  ];
}
