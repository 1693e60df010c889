/** The operations of a store on SQLite without the store: their programs run here, each statement noted. */
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { onTestFinished } from "vitest";
import { claimFeatures, type Operations, operationsOf } from "../../../src/features/sql.ts";
import type { AdmissionPolicy } from "../../../src/stores/sql/admission.ts";
import { ClaimPipeline } from "../../../src/stores/sql/claim.ts";
import { ClaimSteps } from "../../../src/stores/sql/claim-steps.ts";
import type { Program, Step } from "../../../src/stores/sql/program.ts";
import { SettleAndClaimOperations } from "../../../src/stores/sql/settle-and-claim.ts";
import { textsOf } from "../../../src/stores/sql/texts.ts";
import type { Transitions } from "../../../src/stores/sql/transitions.ts";
import { SqliteConnection } from "../../../src/stores/sqlite/connection.ts";
import { sqliteDialect } from "../../../src/stores/sqlite/dialect.ts";
import { openSqliteDatabase } from "../../../src/stores/sqlite/store.ts";
import type { TaskRecord } from "../../../src/task.ts";
import { type ClaimChanges, claimBy, newTask, newWorker, outcomes } from "../../conformance/arrange.ts";

const texts = textsOf(sqliteDialect);

/** With these policies in the place of dbq's own; undefined: with dbq's. */
export function claimsOf(transitions: Transitions, policies?: readonly AdmissionPolicy[]): ClaimPipeline {
  const steps = new ClaimSteps(texts, transitions);
  return new ClaimPipeline(steps, { ...claimFeatures, ...(policies && { policies }) });
}

export interface Harness {
  ops: Operations;
  run<T>(op: () => Program<T>): T;
  /** The kinds of steps that ran since the last call, transactions left out. */
  steps(): Step["want"][];
  insert(...tasks: Parameters<typeof newTask>[0][]): number[];
  claim(changes?: ClaimChanges): TaskRecord[];
  /** Claims in the transaction that completes this task. */
  claimBesideOutcome(task: TaskRecord | undefined, changes?: ClaimChanges): TaskRecord[];
}

/** With these policies in the place of dbq's own; undefined: with dbq's. */
export async function harness(policies?: readonly AdmissionPolicy[]): Promise<Harness> {
  const client = new Database(":memory:");
  onTestFinished(() => void client.close());
  // It makes the tables; nothing else of it is used.
  await openSqliteDatabase(drizzle({ client }), { migrate: true, synchronous: "full" });
  const connection = new SqliteConnection(client);
  const ops = operationsOf(
    texts,
    (transitions) => new SettleAndClaimOperations(texts, transitions, claimsOf(transitions, policies)),
  );
  let steps: Step["want"][] = [];
  const noting = function* <T>(op: Program<T>): Program<T> {
    let next = op.next();
    while (!next.done) {
      const step = next.value;
      if (step.want !== "transaction") steps.push(step.want);
      next = op.next(yield step.want === "transaction" ? { ...step, op: () => noting(step.op()) } : step);
    }
    return next.value;
  };
  const run = <T>(op: () => Program<T>): T => connection.run(noting(op()));
  run(() => ops.maintenance.register(newWorker()));
  const claim: Harness["claim"] = (changes) =>
    run(() => ops.cycle.run({ outcomes: [], claim: claimBy("w1", changes) })).claimed;
  // The first claim that finds tasks reads the limits; the cases are about those after it.
  run(() => ops.tasks.insert([newTask({ func: "first" })], "report"));
  for (const { id } of claim({ funcs: ["first"] }))
    run(() => ops.tasks.purge({ func: "first", includeRunning: true }, 1, id - 1));
  steps = [];
  return {
    ops,
    run,
    steps: () => {
      const since = steps;
      steps = [];
      return since;
    },
    insert: (...tasks) => run(() => ops.tasks.insert(tasks.map(newTask), "report")).map(({ id }) => id),
    claim,
    claimBesideOutcome: (task, changes) => {
      const ended = task ? [outcomes.completed(task)] : [];
      return run(() => ops.cycle.run({ outcomes: ended, claim: claimBy("w1", changes) })).claimed;
    },
  };
}
