/** The trace of an operation: its points, recorded by a process that is not killed. */
import { cpSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Job, Point } from "../../fixtures/crash.ts";
import { crash } from "./crash.ts";
import type { Files, Operation } from "./operation.ts";
import { isSame, type State } from "./state.ts";

export interface Trace {
  operation: Operation;
  /** The folder of all files. */
  folder: string;
  /** The folder of the database that it starts with. */
  prepared: string;
  points: readonly Point[];
}

export const filesIn = (folder: string): Files => ({
  database: join(folder, "dbq.db"),
  eventLog: join(folder, "eventLog.jsonl"),
});

/** Traces each operation in a new folder. `populated` is the database that most operations start with. */
export async function tracesOf(
  operations: readonly Operation[],
  folderOf: (operation: Operation) => string,
  populated: string,
): Promise<Trace[]> {
  const traces = operations.map((operation) => {
    const folder = folderOf(operation);
    return { operation, folder, prepared: join(folder, "prepared"), report: join(folder, "points.json") };
  });
  const jobs: Job[] = [];
  for (const { operation, folder, prepared, report } of traces) {
    await prepare(operation, prepared, populated);
    const whole = join(folder, "whole");
    cpSync(prepared, whole, { recursive: true });
    jobs.push({ ...filesIn(whole), operation: operation.name, report });
  }
  const { how, output } = await crash(jobs);
  if (how !== 0) throw new Error(`without a kill, they ended with ${how}\n${output}`);
  return traces.map(({ report, ...trace }) => {
    const points: Point[] = JSON.parse(readFileSync(report, "utf8"));
    refuseHalves(trace.operation, points);
    refuseUnlocked(trace.operation, points);
    return { ...trace, points };
  });
}

async function prepare(operation: Operation, folder: string, populated: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  if (operation.prepare) await operation.prepare(filesIn(folder));
  else cpSync(populated, folder, { recursive: true });
}

/**
 * Another connection must see as many changes as the operation has transactions. @throws Error when it sees half of one
 */
export function refuseHalves(
  { name, commits }: Operation,
  points: readonly Pick<Point, "name" | "state">[],
): void {
  if (commits === undefined) return;
  const changes = points.filter(({ state }, i) => i > 0 && !isSame(state, points[i - 1]?.state ?? {}));
  if (changes.length === commits) return;
  const where = changes.map((point) => `\n  ${points.indexOf(point)}: ${point.name}`).join("");
  throw new Error(
    `${name}: another connection should see ${commits} changes, and saw ${changes.length}:${where}`,
  );
}

/**
 * A transaction that reads before it has the write lock could not write after others did. @throws Error when it does
 */
function refuseUnlocked({ name, ofTheApp, commits }: Operation, points: readonly Point[]): void {
  if (ofTheApp || commits === undefined) return;
  let inside = false;
  for (const point of points) {
    if (/^(before COMMIT|before ROLLBACK|at the end)/i.test(point.name)) inside = false;
    if (inside && !point.locked)
      throw new Error(
        `${name}: another connection can write in the middle of one of its transactions: ${point.name}`,
      );
    if (/^after BEGIN/i.test(point.name)) inside = true;
  }
}

/** The tasks that an operation deletes, or may have deleted at one of its points. */
export function deletedBy(points: readonly Pick<Point, "state">[]): ReadonlySet<number> {
  const idsOf = (state: State | undefined) => (state?.dbq_tasks ?? []).map(({ id }) => Number(id));
  const left = new Set(idsOf(points.at(-1)?.state));
  return new Set(idsOf(points[0]?.state).filter((id) => !left.has(id)));
}
