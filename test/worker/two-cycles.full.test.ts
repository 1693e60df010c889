/**
 * Two cycles of a worker at once, over a server whose answers come in any order, get lost, or fail. Whatever it does, each
 * task runs under the claim that the server knows, and completes once.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { OutcomeUnknownError } from "../../src/errors.ts";
import { task } from "../../src/index.ts";
import type { Outcome, SettleAndClaim, SettleAndClaimResult } from "../../src/store.ts";
import type { TaskRecord, TaskStatus } from "../../src/task.ts";
import { uniqueName } from "../support/queue.ts";
import { seedOf } from "../support/random.ts";
import { claimedRecord, dispatcherOver, emptyStore, turns } from "./dispatcher-over.ts";

const concurrency = 120;

/** What becomes of a call of the store. `settled`: the outcomes are settled, and only the claim fails. */
type Fate = "answered" | "refused" | "lost" | "settled";

/** A call of the store, of the first ones: how many turns of the event loop pass until it takes effect, and until the answer. */
interface Fortune {
  fate: Fate;
  before: number;
  after: number;
}

const turnCount = fc.integer({ min: 0, max: 6 });
const fortune: fc.Arbitrary<Fortune> = fc.record({
  fate: fc.oneof(
    { weight: 30, arbitrary: fc.constant<Fate>("answered") },
    { weight: 1, arbitrary: fc.constantFrom<Fate>("refused", "lost", "settled") },
  ),
  before: turnCount,
  after: turnCount,
});

interface Row {
  status: TaskStatus;
  generationId: number;
  isSensitive: boolean;
}

class Server {
  readonly rows = new Map<number, Row>();
  readonly #func: string;
  readonly #fortunes: readonly Fortune[];
  #calls = 0;
  /** The most calls at once, and the most crash-sensitive tasks that the worker owned. */
  readonly most = { calls: 0, sensitive: 0 };
  #underWay = 0;
  completions = 0;

  constructor(func: string, tasks: readonly boolean[], fortunes: readonly Fortune[]) {
    this.#func = func;
    this.#fortunes = fortunes;
    for (const [i, isSensitive] of tasks.entries())
      this.rows.set(i + 1, { status: "pending", generationId: 1, isSensitive });
  }

  readonly settleAndClaim = async ({ outcomes, claim }: SettleAndClaim): Promise<SettleAndClaimResult> => {
    const { fate, before, after } = this.#fortunes[this.#calls] ?? { fate: "answered", before: 1, after: 1 };
    this.#calls += 1;
    this.#underWay += 1;
    this.most.calls = Math.max(this.most.calls, this.#underWay);
    try {
      await turns(before);
      if (fate === "refused") throw new Error("the server refused");
      const settled = outcomes.map((outcome) => this.#settle(outcome));
      const isClaiming = claim && fate !== "settled";
      const claimed = isClaiming ? this.#claim(claim.limit, claim.crashSensitive ?? claim.limit) : [];
      await turns(after);
      if (fate === "lost") throw new OutcomeUnknownError("the connection broke");
      const more = claimed.length > 0;
      const failure = fate === "settled" ? { failure: new Error("the claim was refused") } : {};
      return { settled, claimed, more, registered: true, ...failure };
    } finally {
      this.#underWay -= 1;
    }
  };

  #settle({ id, generationId, kind }: Outcome): boolean {
    const row = this.rows.get(id) as Row;
    if (row.status !== "running" || row.generationId !== generationId) return false;
    row.generationId += 1;
    row.status = kind === "interrupted" ? "pending" : "completed";
    if (row.status === "completed") this.completions += 1;
    return true;
  }

  #claim(limit: number, mostSensitive: number): TaskRecord[] {
    const claimed: TaskRecord[] = [];
    let sensitive = 0;
    for (const [id, row] of this.rows) {
      if (claimed.length === limit) break;
      if (row.status !== "pending" || (row.isSensitive && sensitive === mostSensitive)) continue;
      if (row.isSensitive) sensitive += 1;
      row.status = "running";
      row.generationId += 1;
      const { generationId } = row;
      const maxRetries = row.isSensitive ? 0 : 3;
      const args = JSON.stringify([id, generationId]);
      claimed.push({ ...claimedRecord(id, this.#func), args, generationId, maxRetries });
    }
    const owned = this.held().filter(([, { isSensitive }]) => isSensitive).length;
    this.most.sensitive = Math.max(this.most.sensitive, owned);
    return claimed;
  }

  held(): [number, Row][] {
    return [...this.rows].filter(([, { status }]) => status === "running");
  }

  readonly heldBy = async () => {
    const held = this.held().map(([id, { generationId }]) => ({ id, generationId }));
    await turns(2);
    return held;
  };

  readonly taskStates = async (ids: readonly number[]) =>
    ids.map((id) => ({ id, ...(this.rows.get(id) as Row) }));
}

/** Whether a task is crash-sensitive, and for how many turns of the event loop it runs. */
const tasks = fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 4 })), {
  minLength: 200,
  maxLength: 1_000,
});

async function run(drawn: readonly [isSensitive: boolean, turns: number][], fortunes: readonly Fortune[]) {
  let [running, mostRunning, wrong] = [0, 0, 0];
  const work = task(uniqueName("work"), async (id: number, generationId: number) => {
    const row = server.rows.get(id);
    if (row?.status !== "running" || row.generationId !== generationId) wrong += 1;
    running += 1;
    mostRunning = Math.max(mostRunning, running);
    await turns(drawn[id - 1]?.[1]);
    running -= 1;
  });
  const server = new Server(
    work.taskName,
    drawn.map(([isSensitive]) => isSensitive),
    fortunes,
  );
  const { settleAndClaim, heldBy, taskStates } = server;
  const dispatcher = dispatcherOver(
    Object.assign(emptyStore(), { settleAndClaim, heldBy, taskStates, cyclesMayOverlap: () => true }),
    [work.taskName],
    { concurrency, reportError: () => undefined },
  );
  dispatcher.lookForWork();
  const end = performance.now() + 10_000;
  while (server.completions < drawn.length && performance.now() < end) await turns(20);
  // Also what would complete a task a second time.
  await turns(50);
  dispatcher.abandon();
  return { ...server.most, running: mostRunning, wrong, completions: server.completions };
}

test("two cycles at once lose no task, run none twice, and keep to the slots", async () => {
  const seed = seedOf("two cycles at once");
  let overlapped = 0;
  const property = fc.asyncProperty(tasks, fc.array(fortune, { maxLength: 40 }), async (drawn, fortunes) => {
    const found = await run(drawn, fortunes);
    if (found.calls === 2) overlapped += 1;
    expect(found).toEqual({
      calls: expect.toSatisfy((calls) => calls <= 2),
      sensitive: expect.toSatisfy((sensitive) => sensitive <= concurrency),
      running: expect.toSatisfy((running) => running <= concurrency),
      wrong: 0,
      completions: drawn.length,
    });
  });
  await fc.assert(property, { seed, numRuns: 60, endOnFailure: true });
  expect(overlapped).toBeGreaterThan(5);
});
