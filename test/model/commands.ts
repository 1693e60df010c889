/** The commands of the model test: random calls of a store, about rows that exist when they are made. */
import * as fc from "fast-check";
import type { FullStore } from "../../src/features/store.ts";
import type { ClaimRequest, NewTask, NewWorker, Outcome, OutcomeKind, Uniqueness } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { Following } from "./following.ts";
import type { RealStore } from "./real-store.ts";
import type { Method } from "./reference.ts";

type Claimed = Pick<TaskRecord, "id" | "generationId" | "workerId" | "startedAt">;

/** The reference, and what callers remember: the ids that they have seen, and their claims. */
export class Model {
  readonly reference: Following;
  readonly ids = new Set<number>();
  readonly #claims: Claimed[] = [];

  constructor({ freedom, cursors }: Pick<RealStore, "freedom" | "cursors">) {
    this.reference = new Following(() => Date.now(), freedom, cursors);
  }

  remember(claimed: readonly TaskRecord[]): void {
    this.reference.moveCursors(claimed);
    for (const { id, generationId, workerId, startedAt } of claimed)
      this.#claims.push({ id, generationId, workerId, startedAt });
  }

  /** An id that exists or existed, or one that never did. */
  id(n: number): number {
    return [...this.ids, 12_345][n % (this.ids.size + 1)] as number;
  }

  /** A claim that was given, the latest first; before the first one, an invented one. */
  claim(n: number): Claimed {
    const nobodys = { id: 12_345, generationId: 2, workerId: "w1", startedAt: 0 };
    return this.#claims.at(-1 - (n % Math.max(1, this.#claims.length))) ?? nobodys;
  }
}

/** Random choices, which become a call's arguments when the call is made. */
export type Drawn<M extends Method = Method> = (model: Model) => Parameters<FullStore[M]>;

// ---- parts of the arguments ----------------------------------------------------------------------

const queueNames = ["default", "mail"] as const;
const funcs = ["resize", "send", "nobodys"] as const;
const workerIds = ["w1", "w2", "w3"] as const;
const uniqueKeys = ["a", "b"] as const;

const rarely = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { freq: 4, nil: null });
const error = JSON.stringify({ name: "Error", message: "no luck" });
/** Milliseconds from now, also negative. */
const offset = fc.constantFrom(-3_600_000, -1, 0, 1, 500, 60_000);

const newTask: fc.Arbitrary<() => NewTask> = fc
  .record({
    func: fc.constantFrom(...funcs),
    priority: fc.constantFrom(5, 5, 0, 9),
    queueName: fc.constantFrom(...queueNames),
    maxRetries: fc.constantFrom(0, 1, 3),
    fillDefaults: fc.constantFrom(0 as const, 1 as const),
    traceContext: fc.constantFrom(null, '{"traceparent":"00"}'),
    when: rarely(fc.record({ delay: fc.boolean(), offset })),
    timeout: rarely(fc.constant(1_000)),
    requestId: rarely(fc.constant("request")),
    uniqueKey: rarely(fc.constantFrom(...uniqueKeys)),
    unique: fc.option(
      fc.record<Uniqueness>({
        until: fc.constantFrom("started", "finished"),
        for: rarely(fc.constantFrom(1, 500, 60_000)),
        onDuplicate: fc.constantFrom("keep", "replace", "debounce"),
        limit: rarely(fc.constantFrom(1, 500, 60_000)),
      }),
      { nil: undefined },
    ),
  })
  .map(({ when, unique, ...task }) => () => ({
    ...task,
    unique: task.uniqueKey === null ? undefined : unique,
    groupKey: null,
    expiresIn: null,
    parentId: null,
    rootId: null,
    args: "[1]",
    kwargs: "{}",
    meta: '{"by":"test"}',
    waitUntil: when && !when.delay ? Date.now() + when.offset : null,
    delay: when?.delay ? Math.max(0, when.offset) : null,
  }));

/** A row inserted with SQL: any values that the columns take; only `func` is required. */
const rawTask: fc.Arbitrary<() => Partial<TaskRecord> & { func: string }> = fc
  .record(
    {
      id: fc.constantFrom(-7, -3, 1_000),
      func: fc.constantFrom(...funcs),
      status: fc.constantFrom("pending", "scheduled", "running"),
      maxRetries: fc.constantFrom(0, 1),
      workerId: fc.constantFrom("w1", "gone"),
      priority: fc.constantFrom(4, 6),
      generationId: fc.constantFrom(1, 7),
      waitUntil: offset,
    },
    { requiredKeys: ["func"] },
  )
  .map(({ waitUntil, ...row }) => () => ({
    ...row,
    ...(waitUntil === undefined ? {} : { waitUntil: Date.now() + waitUntil }),
  })) as fc.Arbitrary<() => Partial<TaskRecord> & { func: string }>;

const newWorker: fc.Arbitrary<NewWorker> = fc.constantFrom(...workerIds).map((id) => ({
  id,
  queueNames: ["default"],
  concurrency: 2,
  lease: 1_000,
  host: "elsewhere",
  bootId: null,
  pidNamespace: null,
  pid: 1,
  processStart: null,
}));

const claimRequest: fc.Arbitrary<ClaimRequest> = fc.record({
  workerId: fc.constantFrom(...workerIds),
  queueNames: fc.subarray([...queueNames], { minLength: 1 }),
  funcs: fc.subarray(["resize", "send"], { minLength: 1 }),
  limit: fc.constantFrom(1, 2, 10),
});

const kinds: readonly OutcomeKind[] = ["completed", "failed", "retry", "cancelled", "snoozed", "interrupted"];

/**
 * Mostly of a claim as it was given; sometimes of another generation or of a missing task. Never of the generation of a
 * waiting task, since only a claim returns a generation to settle.
 */
const outcome: fc.Arbitrary<(model: Model) => Outcome> = fc
  .record({
    n: fc.nat(8),
    kind: fc.constantFrom(...kinds),
    wrongGeneration: fc.constantFrom(0, 0, 0, 0, -1, 100),
    wrongId: fc.constantFrom(0, 0, 0, 0, 0, 12_345),
    delay: fc.constantFrom(0, 500, 60_000),
  })
  .map(({ n, kind, wrongGeneration, wrongId, delay }) => (model) => {
    const { id, generationId, ...ran } = model.claim(n);
    const held = { ...ran, id: id + wrongId, generationId: generationId + wrongGeneration };
    const failure = {
      errorName: "Error",
      errorMessage: "no luck",
      errorStack: "Error: no luck",
      errorCause: null,
    };
    const attempt = { outcome: kind === "cancelled" ? kind : ("failed" as const), ...failure };
    if (kind === "completed") return { ...held, kind, result: "1" };
    if (kind === "snoozed") return { ...held, kind, delay };
    if (kind === "interrupted") return { ...held, kind };
    return kind === "retry" ? { ...held, kind, error, attempt, delay } : { ...held, kind, error, attempt };
  });

const outcomes = fc.array(outcome, { maxLength: 4 });

/** Several tasks, and how duplicates are handled: `null` reports them. */
const insertion = fc
  .record({
    tasks: fc.array(newTask, { minLength: 1, maxLength: 4 }),
    refuse: rarely(fc.infiniteStream(fc.boolean())),
  })
  .map(({ tasks, refuse }) => {
    const flags = refuse && tasks.map(() => refuse.next().value === true);
    return (): Parameters<FullStore["insert"]> => [
      tasks.map((task) => task()),
      flags === null ? "report" : { refuse: flags },
    ];
  });

// ---- the calls ------------------------------------------------------------------------------------

const of = <T, M extends Method>(
  arbitrary: fc.Arbitrary<T>,
  drawn: (value: T, model: Model) => Parameters<FullStore[M]>,
) =>
  arbitrary.map(
    (value): Drawn<M> =>
      (model) =>
        drawn(value, model),
  );
const anId = fc.nat(20);
const limit = fc.constantFrom(1, 2, 500);
const ids = fc.array(anId, { maxLength: 4 });

/** How the arguments of each method are drawn. */
export const drawn: { [M in Method]: fc.Arbitrary<Drawn<M>> } = {
  insert: insertion,
  settleAndClaim: of(
    fc.record({ outcomes, claim: fc.option(claimRequest, { nil: undefined, freq: 3 }) }),
    (turn, model) => [{ outcomes: turn.outcomes.map((one) => one(model)), claim: turn.claim }],
  ),
  progress: of(
    fc.array(fc.tuple(outcome, fc.option(fc.constant("half"))), { maxLength: 2 }),
    (notes, model) => [
      notes.map(([one, note]) => {
        const { id, generationId } = one(model);
        return { id, generationId, progress: 0.5, note };
      }),
    ],
  ),
  fillDefaults: of(fc.array(fc.tuple(outcome, fc.constantFrom(0, 2)), { maxLength: 2 }), (filled, model) => [
    filled.map(([one, maxRetries]) => {
      const { id, generationId } = one(model);
      return { id, generationId, maxRetries };
    }),
  ]),
  get: of(ids, (chosen, model) => [[...new Set(chosen.map((n) => model.id(n)))]]),
  findEnded: of(ids, (chosen, model) => [[...new Set(chosen.map((n) => model.id(n)))]]),
  heldBy: of(fc.constantFrom(...workerIds), (id) => [id]),
  taskStates: of(ids, (chosen, model) => [[...new Set(chosen.map((n) => model.id(n)))]]),
  taskProgress: of(ids, (chosen, model) => [[...new Set(chosen.map((n) => model.id(n)))]]),
  attempts: of(anId, (n, model) => [model.id(n)]),
  idle: of(fc.subarray([...queueNames]), (names) => [names]),
  cancel: of(anId, (n, model) => [model.id(n), error]),
  retry: of(anId, (n, model) => [model.id(n)]),
  purge: of(
    fc.record({
      func: fc.option(fc.constantFrom(...funcs), { nil: undefined }),
      queueName: fc.option(fc.constantFrom(...queueNames), { nil: undefined }),
      includeRunning: fc.boolean(),
      limit,
      after: fc.constantFrom(Number.MIN_SAFE_INTEGER, 0, 3),
    }),
    ({ limit: most, after, ...filter }) => [filter, most, after],
  ),
  promote: of(limit, (most) => [most]),
  prune: of(fc.record({ age: fc.constantFrom(0, 1_000, 60_000), limit }), ({ age, limit: most }) => [
    { completed: age, cancelled: age, failed: Number.POSITIVE_INFINITY },
    most,
  ]),
  freeKeys: of(fc.record({ after: fc.constantFrom("", "a"), limit }), ({ after, limit: most }) => [
    after,
    most,
  ]),
  register: of(newWorker, (worker) => [worker]),
  unregister: of(fc.constantFrom(...workerIds), (id) => [id]),
  resize: of(fc.tuple(fc.constantFrom(...workerIds), fc.integer({ min: 1, max: 9 })), (args) => args),
  heartbeat: of(fc.constantFrom(...workerIds), (id) => [id]),
  workers: fc.constant(() => []),
  rescue: of(
    fc.record({ id: fc.constantFrom(...workerIds), stale: fc.constantFrom(0, 0, 1, -1) }),
    ({ id, stale }, model) => [
      id,
      (model.reference.workers().find((worker) => worker.id === id)?.beat ?? 0) + stale,
    ],
  ),
  rescueOrphans: of(fc.constantFrom(0, 1_000), (age) => [age]),
};

/** How often each method is called, where once is not enough. */
export const frequent: Partial<Record<Method, number>> = {
  insert: 6,
  settleAndClaim: 12,
  register: 4,
  promote: 3,
  cancel: 2,
  retry: 4,
  rescue: 4,
  rescueOrphans: 2,
  unregister: 2,
};

/** A step of an app's own transaction. */
export type Step = { insert: Parameters<FullStore["insert"]> } | { settle: Outcome };

export const steps: fc.Arbitrary<(model: Model) => Step[]> = fc
  .array(
    fc.oneof(
      insertion.map((one) => () => ({ insert: one() })),
      outcome.map((one) => (model: Model) => ({ settle: one(model) })),
    ),
    { minLength: 1, maxLength: 3 },
  )
  .map((all) => (model) => all.map((one) => one(model)));

export const raw = rawTask;

/** Milliseconds by which the host's clock is stepped. */
export const clockStep = fc.constantFrom(1, 400, 500, 1_001, 60_000, 3_600_000, -1, -1_000, -3_600_000);
