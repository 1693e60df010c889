/** The steps of the model of limits: calls of a store, some of which fail, and what the model says of each. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { vi } from "vitest";
import type { LimitScope, LimitValues } from "../../src/base/options/limits.ts";
import { DatabaseError } from "../../src/errors.ts";
import { limitsAnswered, limitsAsked } from "../../src/features/limits/contract.ts";
import type { SettleAndClaimResult } from "../../src/store.ts";
import { textOf } from "../../src/stores/sql/rows.ts";
import { newTask, newWorker } from "../conformance/arrange.ts";
import { drawnFault } from "./drawn-fault.ts";
import { keyOf, type LimitedTask, type LimiterModel, sharing } from "./limiter-model.ts";
import type { Fault, RealStore, Row } from "./real-store.ts";

const funcs = ["plain", "turns", "shares", "both"] as const;
const queueNames = ["default", "mail"] as const;
const groups = ["a", "b", "c"] as const;
const workerIds = ["w1", "w2"] as const;

const numberOf = (value: unknown) => (value === null ? null : Number(value));

const toTask = (row: Row): LimitedTask => ({
  id: Number(row.id),
  generationId: Number(row.generationId),
  status: String(row.status),
  func: String(row.func),
  queueName: String(row.queueName),
  priority: Number(row.priority),
  group: row.groupKey === null ? "" : textOf(row.groupKey),
  waitUntil: numberOf(row.waitUntil),
  workerId: row.workerId === null ? null : String(row.workerId),
  startedAt: numberOf(row.startedAt),
  isPutOff: row.putOffBy !== null,
});

export const tasksOf = async (real: RealStore) => (await real.rows()).tasks.map(toTask);

const running = (tasks: readonly LimitedTask[]) => tasks.filter(({ status }) => status === "running");

/** The whole content, to see that a failed call has changed nothing. */
const contentOf = async (real: RealStore) =>
  JSON.stringify([await real.rows(), (await real.read("dbq_limits")).map(textOfRow).sort()]);

const textOfRow = ({ claims: _, ...row }: Row) =>
  JSON.stringify(Object.values(row).map((value) => (value === null ? null : textOf(value))));

/** One call on the store; `text` describes it as it was done. */
export abstract class LimiterStep implements fc.AsyncCommand<LimiterModel, RealStore> {
  protected text = "(not reached)";
  readonly #fault: Fault | undefined;

  constructor(fault: Fault | undefined) {
    this.#fault = fault;
  }

  check(): boolean {
    return true;
  }

  toString(): string {
    return this.#fault
      ? `${this.text}, while statement ${this.#fault.statement} ${this.#fault.how}`
      : this.text;
  }

  async run(model: LimiterModel, real: RealStore): Promise<void> {
    await this.happen(model, real);
    await agree(model, real);
  }

  protected abstract happen(model: LimiterModel, real: RealStore): Promise<void>;

  /** Undefined: the call has failed by the fault. */
  protected async ask<T>(real: RealStore, call: () => Promise<T>): Promise<T | undefined> {
    if (!this.#fault) return await call();
    let failed: unknown;
    const { answer, fired } = await real.failing(this.#fault, () =>
      call().catch((error: unknown) => {
        if (!(error instanceof DatabaseError)) throw error;
        failed = error;
        return undefined;
      }),
    );
    assert.ok(failed === undefined || fired, `a call failed without a fault: ${failed}`);
    return answer;
  }
}

/** The scope in the queues of this sequence. */
const own = (model: LimiterModel, scope: LimitScope): LimitScope =>
  scope.kind === "queue" ? { ...scope, name: model.queue(scope.name) } : scope;

/** The rows of limits are those of the model, with the states of their rates. */
async function agree(model: LimiterModel, real: RealStore): Promise<void> {
  assert.equal(real.inTransaction, false);
  const records = [...(await real.store.limits.records())].map((record) => {
    const { tat: _, ...rest } = record as typeof record & { tat?: unknown };
    return rest;
  });
  records.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  assert.deepStrictEqual(records, model.records());
  const rows = await real.read("dbq_limits");
  const arrivals = rows.flatMap((row): [string, number][] => {
    const scope = { kind: String(row.scope), name: textOf(row.name), group: textOf(row.groupKey) };
    return row.tat === null ? [] : [[keyOf(scope as LimitScope), Number(row.tat)]];
  });
  assert.deepStrictEqual(new Map(arrivals.sort()), new Map([...model.arrivals()].sort()));
  for (const task of await tasksOf(real))
    if (task.status === "scheduled" && task.isPutOff)
      assert.ok(
        model.boundsOf(task).some(({ rate }) => rate !== null),
        `task ${task.id} waits for a rate that there is no more`,
      );
}

// ---- the calls ------------------------------------------------------------------------------------

interface Enqueued {
  func: string;
  queueName: string;
  groupKey: string | null;
  priority: number;
}

class Enqueue extends LimiterStep {
  readonly #tasks: readonly Enqueued[];

  constructor(tasks: readonly Enqueued[]) {
    super(undefined);
    this.#tasks = tasks;
  }

  protected async happen(model: LimiterModel, real: RealStore): Promise<void> {
    this.text = `insert(${JSON.stringify(this.#tasks)})`;
    const tasks = this.#tasks.map((task) => newTask({ ...task, queueName: model.queue(task.queueName) }));
    await real.store.insert(tasks, "report");
  }
}

interface Turn {
  /** How many of the running tasks end, and how. */
  ended: readonly ("completed" | "snoozed" | "interrupted")[];
  workerId: string;
  funcs: readonly string[];
  queueNames: readonly string[];
  limit: number;
  held: number;
}

class Claim extends LimiterStep {
  readonly #turn: Turn;

  constructor(turn: Turn, fault: Fault | undefined) {
    super(fault);
    this.#turn = turn;
  }

  protected async happen(model: LimiterModel, real: RealStore): Promise<void> {
    const { ended, held, ...turn } = this.#turn;
    const request = { ...turn, queueNames: turn.queueNames.map((name) => model.queue(name)) };
    const before = await tasksOf(real);
    const ending = running(before).slice(0, ended.length);
    const outcomes = ending.map(({ id, generationId, workerId, startedAt }, i) => {
      const held = { id, generationId, workerId, startedAt };
      const kind = ended[i];
      if (kind === "snoozed") return { ...held, kind, delay: 500 } as const;
      return kind === "interrupted"
        ? ({ ...held, kind } as const)
        : ({ ...held, kind: "completed", result: "1" } as const);
    });
    const freed = ending.map((task) => model.claimedAs(task));
    this.text = `settleAndClaim(${JSON.stringify([outcomes, request])})`;
    const content = await contentOf(real);
    const result = await this.ask(real, () =>
      real.store.settleAndClaim({
        outcomes,
        claim: { ...request, ...limitsAsked.with({ sharing, freed, held }) },
      }),
    );
    if (result === undefined || result.failure !== undefined) model.lostTurns();
    if (result === undefined) return assert.equal(await contentOf(real), content);
    assert.ok(result.registered && result.settled.every(Boolean));
    const ids = new Set(ending.map(({ id }) => id));
    const left = running(before).filter(({ id }) => !ids.has(id));
    model.claimed(result.claimed);
    const after = await tasksOf(real);
    this.#judge(model, before, left, result, after);
    if (!result.retaken) return;
    assert.ok(ending.length > 0 && outcomes.every(({ kind }) => kind === "completed"));
    assert.deepStrictEqual(
      model.placesLeft(running(before), running(after)),
      [],
      "places were left and not told",
    );
  }

  #judge(
    model: LimiterModel,
    before: readonly LimitedTask[],
    left: readonly LimitedTask[],
    result: SettleAndClaimResult,
    after: readonly LimitedTask[],
  ): void {
    const { claimed, more, failure } = result;
    const { again, startsIn } = limitsAnswered.of(result) ?? {};
    const now = Date.now();
    const { limit, held, funcs } = this.#turn;
    const queueNames = this.#turn.queueNames.map((name) => model.queue(name));
    const isAsked = (task: LimitedTask) => funcs.includes(task.func) && queueNames.includes(task.queueName);
    const asked = before.filter(isAsked);
    const handedBack = after.filter(
      ({ status, id }) =>
        status === "pending" && before.some((task) => task.id === id && task.status === "running"),
    );
    const pending = [...asked, ...handedBack.filter(isAsked)].filter(({ status }) => status === "pending");
    const known = new Map([...before, ...handedBack].map((task) => [task.id, task]));
    // A task that was handed back in this cycle may start again in it.
    const started = claimed.map(({ id, startedAt }) => ({
      ...(known.get(id) as LimitedTask),
      status: "pending",
      startedAt,
    }));
    const later = started.flatMap(({ id, startedAt }) =>
      (startedAt ?? 0) > now ? [[id, (startedAt ?? 0) - now] as const] : [],
    );
    assert.deepStrictEqual(startsIn ?? new Map(), new Map(later));
    assert.ok(later.length === 0 || started.length <= held, "a task waits for its turn without a slot");
    const tasks = [...pending, ...started.filter(({ id }) => !pending.some((task) => task.id === id))];
    assert.ok(failure === undefined || claimed.length === 0);
    assert.ok(claimed.length <= limit && started.every(isAsked));
    const waited = model.waiting(tasks, left, now);
    const runs = [...left];
    for (const task of started) {
      model.start(task, runs, now);
      runs.push({ ...task, status: "running" });
    }
    assert.deepStrictEqual(
      running(after)
        .map(({ id }) => id)
        .sort(),
      runs.map(({ id }) => id).sort(),
    );
    if (failure === undefined)
      model.tookTurns(waited, model.waiting(after.filter(isAsked), runs, now), started);
    this.#putOff(model, before, after, now);
    if (failure !== undefined || more || again === 0) return;
    const missed = after.filter((task) => isAsked(task) && model.mayStart(task, runs, now));
    assert.deepStrictEqual(missed, [], "the claim says that there is no more, and these tasks may start");
  }

  /** Only a rate makes a pending task wait, and only until its turn. */
  #putOff(
    model: LimiterModel,
    before: readonly LimitedTask[],
    after: readonly LimitedTask[],
    now: number,
  ): void {
    for (const task of before) {
      const then = after.find(({ id }) => id === task.id);
      if (task.status !== "pending" || then?.status === "pending" || then?.status === "running") continue;
      assert.ok(then?.status === "scheduled" && then.isPutOff, `task ${task.id} was lost`);
      assert.ok(!task.isPutOff, `a rate has put off task ${task.id} twice`);
      assert.ok(model.isLate(task, now), `task ${task.id} was put off, and no rate refuses it`);
      assert.ok((then.waitUntil ?? 0) > now);
    }
  }
}

class SetLimit extends LimiterStep {
  readonly #scope: LimitScope;
  readonly #values: LimitValues | null;

  constructor(scope: LimitScope, values: LimitValues | null, fault: Fault | undefined) {
    super(fault);
    this.#scope = scope;
    this.#values = values;
  }

  protected async happen(model: LimiterModel, real: RealStore): Promise<void> {
    const { limits } = real.store;
    const [scope, values] = [own(model, this.#scope), this.#values];
    this.text = `set(${JSON.stringify([scope, values])})`;
    const content = await contentOf(real);
    const set = async () => {
      await (scope.kind === "code"
        ? limits.declare([{ func: scope.name, values }])
        : limits.set(scope, values));
      return true;
    };
    const done = await this.ask(real, set);
    if (done === undefined && (await contentOf(real)) === content) return;
    // Running tasks and tasks that wait are changed after the values, in transactions of their own. Repeated, it goes on.
    if (done === undefined) await limits.set(scope, values);
    model.set(scope, values, Date.now());
  }
}

class Pause extends LimiterStep {
  readonly #scope: LimitScope;
  readonly #how: "pause" | "resume";

  constructor(scope: LimitScope, how: "pause" | "resume", fault: Fault | undefined) {
    super(fault);
    this.#scope = scope;
    this.#how = how;
  }

  protected async happen(model: LimiterModel, real: RealStore): Promise<void> {
    const scope = own(model, this.#scope);
    this.text = `${this.#how}(${JSON.stringify(scope)})`;
    const content = await contentOf(real);
    const changed = await this.ask(real, () => real.store.limits[this.#how](scope));
    if (changed === undefined) assert.equal(await contentOf(real), content);
    else assert.equal(changed, model.pause(scope, this.#how === "pause" ? Date.now() : null));
  }
}

class Throttle extends LimiterStep {
  readonly #scope: LimitScope;
  readonly #delay: number;

  constructor(scope: LimitScope, delay: number, fault: Fault | undefined) {
    super(fault);
    this.#scope = scope;
    this.#delay = delay;
  }

  protected async happen(model: LimiterModel, real: RealStore): Promise<void> {
    const scope = own(model, this.#scope);
    this.text = `throttle(${JSON.stringify(scope)}, ${this.#delay})`;
    const content = await contentOf(real);
    const done = await this.ask(real, async () => {
      await real.store.limits.throttle(scope, this.#delay);
      return true;
    });
    if (done) model.throttle(scope, Date.now() + this.#delay);
    else assert.equal(await contentOf(real), content);
  }
}

/** What ends or frees tasks beside a settle: their slots must not leak. */
class Operate extends LimiterStep {
  readonly #how: "cancel" | "purge" | "crash" | "promote" | "retry";
  readonly #n: number;

  constructor(how: "cancel" | "purge" | "crash" | "promote" | "retry", n: number, fault: Fault | undefined) {
    super(fault);
    this.#how = how;
    this.#n = n;
  }

  protected async happen(_: LimiterModel, real: RealStore): Promise<void> {
    const { store } = real;
    const tasks = await tasksOf(real);
    const id = tasks[this.#n % Math.max(1, tasks.length)]?.id ?? 0;
    const workerId = workerIds[this.#n % workerIds.length] as string;
    this.text = `${this.#how}(${this.#how === "crash" ? workerId : id})`;
    if (this.#how === "cancel") await this.ask(real, () => store.cancel(id, "{}"));
    else if (this.#how === "retry") await this.ask(real, () => store.retry(id));
    else if (this.#how === "promote") await this.ask(real, () => store.promote(500));
    else if (this.#how === "purge")
      await this.ask(real, () => store.purge({ includeRunning: true }, 2, this.#n));
    else {
      const beat = (await store.workers()).find((worker) => worker.id === workerId)?.beat ?? 0;
      await this.ask(real, () => store.rescue(workerId, beat));
      if (!(await store.workers()).some((worker) => worker.id === workerId))
        await store.register(newWorker(workerId));
    }
  }
}

class ClockStep extends LimiterStep {
  readonly #by: number;

  constructor(by: number) {
    super(undefined);
    this.#by = by;
  }

  protected async happen(_: LimiterModel, real: RealStore): Promise<void> {
    this.text = `step the clock by ${this.#by} ms`;
    vi.setSystemTime(Date.now() + this.#by);
    await real.setClock();
    // As the maintenance of any worker does.
    while ((await real.store.promote(500)).promoted > 0);
  }
}

// ---- how they are drawn ---------------------------------------------------------------------------

const scope = fc.oneof(
  fc.constant<LimitScope>({ kind: "name", name: "api", group: "" }),
  fc.constantFrom(...queueNames).map((name): LimitScope => ({ kind: "queue", name, group: "" })),
  fc.constantFrom(...funcs).map((name): LimitScope => ({ kind: "func", name, group: "" })),
  fc
    .record({ name: fc.constantFrom("turns", "both"), group: fc.constantFrom("", ...groups) })
    .map((one): LimitScope => ({ kind: "group", ...one })),
);

const ofCode = fc.constantFrom(...funcs).map((name): LimitScope => ({ kind: "code", name, group: "" }));

const rate = fc
  .record({
    limit: fc.constantFrom(1, 2, 4),
    per: fc.constantFrom(1_000, 60_000),
    burst: fc.constantFrom(1, 1, 2),
  })
  .map(({ burst, ...one }) => ({ ...one, burst: Math.min(burst, one.limit) }));

const values = fc.oneof(
  fc.constant(null),
  fc.constantFrom(1, 2, 3).map((concurrency): LimitValues => ({ concurrency, rate: null })),
  rate.map((one): LimitValues => ({ concurrency: null, rate: one })),
  fc.record<LimitValues>({ concurrency: fc.constantFrom(1, 2), rate }),
);

const enqueued = fc.record<Enqueued>({
  func: fc.constantFrom(...funcs, "turns", "both"),
  queueName: fc.constantFrom("default", "default", "mail"),
  groupKey: fc.constantFrom(null, ...groups, ...groups),
  priority: fc.constantFrom(5, 5, 9),
});

const turn = fc.record<Turn>({
  ended: fc.array(fc.constantFrom("completed", "completed", "snoozed", "interrupted"), { maxLength: 4 }),
  workerId: fc.constantFrom(...workerIds),
  funcs: fc.constantFrom([...funcs], [...funcs], ["turns"], ["shares", "both"]),
  queueNames: fc.constantFrom([...queueNames], ["default"]),
  limit: fc.constantFrom(1, 2, 3, 10),
  held: fc.constantFrom(0, 1, 10),
});

/** All steps for a store whose statements fail in these ways. */
export function limiterSteps(faults: readonly Fault["how"][]): fc.Arbitrary<LimiterStep>[] {
  const fault = drawnFault(faults, 20, 4);
  const claim = fc.tuple(turn, fault).map((drawn) => new Claim(...drawn));
  const enqueue = fc.array(enqueued, { minLength: 1, maxLength: 6 }).map((tasks) => new Enqueue(tasks));
  return [
    ...[enqueue, enqueue, enqueue],
    ...[claim, claim, claim, claim, claim, claim],
    fc.tuple(fc.oneof(scope, scope, scope, ofCode), values, fault).map((drawn) => new SetLimit(...drawn)),
    fc.tuple(scope, values, fault).map((drawn) => new SetLimit(...drawn)),
    fc
      .tuple(scope, fc.constantFrom("pause" as const, "resume" as const), fault)
      .map((drawn) => new Pause(...drawn)),
    fc.tuple(scope, fc.constantFrom(500, 60_000), fault).map((drawn) => new Throttle(...drawn)),
    fc
      .tuple(fc.constantFrom("cancel", "purge", "crash", "promote", "retry"), fc.nat(20), fault)
      .map((drawn) => new Operate(...drawn)),
    fc.constantFrom(1, 150, 250, 500, 1_001, 30_000, 3_600_000).map((by) => new ClockStep(by)),
    fc.constantFrom(100, 250, 1_001, 60_300).map((by) => new ClockStep(by)),
  ];
}
