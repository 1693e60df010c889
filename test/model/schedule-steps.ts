/** The steps of the model of schedules, done on a store and on the model. */
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import * as fc from "fast-check";
import { vi } from "vitest";
import { remoteTask } from "../../src/base/tasks/registry.ts";
import { ScheduleNotFoundError } from "../../src/errors.ts";
import { Actions } from "../../src/features/schedules/actions.ts";
import { Firing } from "../../src/features/schedules/fire.ts";
import { drawnFault } from "./drawn-fault.ts";
import { FailingStep } from "./failing-step.ts";
import type { Fault, RealStore, Row } from "./real-store.ts";
import type { Definition, ModelTask, ScheduleModel } from "./schedule-model.ts";

const report = remoteTask<(n: number) => void>("report");
const names = ["hourly", "ping"] as const;

const actionsOf = (real: RealStore) =>
  new Actions(real.store.schedules, { maxPayload: 1_000_000, synchronous: false, wake: () => undefined });

const numberOf = (value: unknown) => (value === null ? null : Number(value));

/** The tasks of schedules and the schedules, as the model has them. */
async function stateOf(real: RealStore): Promise<{ schedules: Row; tasks: ModelTask[] }> {
  const { tasks } = await real.rows();
  const rows = await real.read("dbq_schedules");
  const schedules = rows.map((row): [string, Row] => {
    const { everyMs, startAt, endAt, anchorAt, nextAt, lastSlot, skipped, pausedAt } = row;
    const times = { everyMs, startAt, endAt, anchorAt, nextAt, lastSlot, skipped, pausedAt };
    const numbers = Object.entries(times).map(([name, value]) => [name, numberOf(value)]);
    const arg = JSON.parse(String(row.args))[0];
    return [
      String(row.name),
      { ...Object.fromEntries(numbers), arg, missed: row.missed, overlap: row.overlap },
    ];
  });
  return {
    schedules: Object.fromEntries(schedules),
    tasks: tasks
      .map(({ scheduleName, slot, args, status }) => ({
        name: String(scheduleName),
        slot: numberOf(slot),
        arg: JSON.parse(String(args))[0],
        isFinished: status === "cancelled",
      }))
      .sort(inOrder),
  };
}

const inOrder = (a: object, b: object) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);

function expectedOf({ schedules, tasks }: ScheduleModel): { schedules: Row; tasks: ModelTask[] } {
  const all = [...schedules].map(([name, one]) => [name, { ...one, missed: writtenMissed(one.missed) }]);
  return { schedules: Object.fromEntries(all), tasks: tasks.map((task) => ({ ...task })).sort(inOrder) };
}

/** As a row has it. */
const writtenMissed = (missed: Definition["missed"]) =>
  typeof missed === "string" ? missed : `all:${missed.all}`;

interface Operation {
  text: string;
  real: (real: RealStore) => Promise<unknown>;
  /** The answer that is expected, if it matters. */
  model: (model: ScheduleModel) => unknown;
}

class Step extends FailingStep<ScheduleModel> {
  readonly #draw: (model: ScheduleModel) => Operation;

  constructor(draw: (model: ScheduleModel) => Operation, fault?: Fault) {
    super(fault);
    this.#draw = draw;
  }

  async run(model: ScheduleModel, real: RealStore): Promise<void> {
    const operation = this.#draw(model);
    this.text = operation.text;
    const undo = model.save();
    const expected = operation.model(model);
    const { answer, failed } = await this.call(real, () => ifThere(operation.real(real)));
    const state = await stateOf(real);
    assert.equal(real.inTransaction, false);
    // A call that fails may have happened, if only a read after it has failed. Nothing in between.
    if (failed && !isDeepStrictEqual(state, expectedOf(model))) undo();
    assert.deepStrictEqual(state, expectedOf(model));
    if (!failed && expected !== undefined) assert.deepStrictEqual(answer, expected);
  }
}

/** A schedule that is not there is no failure. */
const ifThere = (call: Promise<unknown>) =>
  call.catch((error: unknown) => {
    if (!(error instanceof ScheduleNotFoundError)) throw error;
  });

// ---- the operations -------------------------------------------------------------------------------

const aName = fc.constantFrom(...names);

const dateOf = (time: number | null) => (time === null ? {} : new Date(time));

/** Times relative to the moment of the call, in whole minutes. */
const definition = fc.record({
  every: fc.constantFrom(10_000, 60_000, 3_600_000),
  startIn: fc.constantFrom(null, null, -90_000, 30_000),
  endIn: fc.constantFrom(null, null, null, 7_200_000),
  missed: fc.constantFrom<Definition["missed"]>("one", "skip", { all: 3 }),
  overlap: fc.constantFrom("skip" as const, "allow" as const),
  arg: fc.constantFrom(1, 2),
});

const schedule = fc.tuple(aName, definition).map(([name, { every, startIn, endIn, ...rest }]) => () => {
  const at = (by: number | null) => (by === null ? null : Math.floor(Date.now() / 60_000) * 60_000 + by);
  const to: Definition = { everyMs: every, startAt: at(startIn), endAt: at(endIn), ...rest };
  return scheduled(name, to);
});

const scheduled = (name: string, to: Definition): Operation => ({
  text: `schedule("${name}", ${JSON.stringify(to)})`,
  real: async (real) => {
    const { everyMs: every, startAt, endAt, arg, ...rest } = to;
    const times = {
      ...(startAt !== null && { startAt: dateOf(startAt) as Date }),
      ...(endAt !== null && { endAt: dateOf(endAt) as Date }),
    };
    await actionsOf(real).schedule(name, { every, ...times, ...rest }, report, arg);
  },
  model: (model) => model.schedule(name, to, Date.now()),
});

/** Writing what is there already writes nothing: not even a generation. */
const again = aName.map((name) => (model: ScheduleModel): Operation => {
  const one = model.schedules.get(name);
  if (!one) return { text: "(nothing)", real: async () => undefined, model: () => undefined };
  const { everyMs, startAt, endAt, missed, overlap, arg } = one;
  const { real, ...rest } = scheduled(name, { everyMs, startAt, endAt, missed, overlap, arg });
  return {
    ...rest,
    real: async (store) => {
      const rows = JSON.stringify(await store.read("dbq_schedules"));
      await real(store);
      assert.equal(JSON.stringify(await store.read("dbq_schedules")), rows);
    },
  };
});

/** Fires until nothing is due, as a worker does. */
async function fire(real: RealStore): Promise<void> {
  const job = new Firing(real.store.schedules, {
    workerId: "w",
    onWork: () => undefined,
    report: () => undefined,
  });
  while ((await job.run()) === 0);
}

const fired: Operation = { text: "fire", real: fire, model: (model) => model.fire(Date.now()) };

type Simple = "pause" | "resume" | "trigger" | "remove";

const simple = fc.tuple(fc.constantFrom<Simple>("pause", "resume", "trigger", "remove"), aName).map(
  ([how, name]) =>
    (): Operation => ({
      text: `${how}("${name}")`,
      real: async (real) => void (await actionsOf(real)[`${how}Schedule`](name)),
      model: (model) => model[how](name, Date.now()),
    }),
);

const backfill = fc
  .record({ name: aName, from: fc.constantFrom(-120_000, 0), length: fc.constantFrom(0, 60_000, 180_000) })
  .map(({ name, from, length }) => (): Operation => {
    const first = Date.now() + from;
    return {
      text: `backfill("${name}", ${first}, ${first + length})`,
      real: async (real) =>
        (await actionsOf(real).backfillSchedule(name, new Date(first), new Date(first + length))).length,
      model: (model) => (model.schedules.has(name) ? model.backfill(name, first, first + length) : undefined),
    };
  });

/** Ends all tasks of a schedule. */
const finish = aName.map(
  (name) => (): Operation => ({
    text: `finish("${name}")`,
    real: async (real) => {
      for (const { id, scheduleName } of (await real.rows()).tasks)
        if (scheduleName === name) await real.store.cancel(Number(id), "{}");
    },
    model: (model) => {
      for (const task of model.tasks) if (task.name === name) task.isFinished = true;
    },
  }),
);

const step = fc.constantFrom(1, 9_999, 10_000, 59_000, 61_000, 200_000, 3_600_000).map(
  (by) => (): Operation => ({
    text: `step the clock by ${by} ms`,
    real: async (real) => {
      vi.setSystemTime(Date.now() + by);
      await real.setClock();
    },
    model: () => undefined,
  }),
);

/** All steps for a store whose statements fail in these ways. */
export function scheduleSteps(faults: readonly Fault["how"][]): fc.Arbitrary<Step>[] {
  const fault = drawnFault(faults, 10, 3);
  const failing = (drawn: fc.Arbitrary<(model: ScheduleModel) => Operation>) =>
    fc.tuple(drawn, fault).map(([draw, how]) => new Step(draw, how));
  const safe = (drawn: fc.Arbitrary<(model: ScheduleModel) => Operation>) =>
    drawn.map((draw) => new Step(draw));
  const firing = failing(fc.constant(() => fired));
  return [
    ...[failing(schedule), safe(again), firing, firing, firing, failing(simple), failing(simple)],
    ...[failing(backfill), safe(finish), safe(step), safe(step), safe(step)],
  ];
}
