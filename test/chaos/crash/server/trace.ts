/** The trace of an operation on a server: its statements, recorded by a process that is not killed. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Cut, Point } from "../../../fixtures/crash-server.ts";
import type { Files } from "../operation.ts";
import { furnish } from "../populated.ts";
import { refuseHalves } from "../trace.ts";
import { copyRows } from "./copy.ts";
import { crash } from "./crash.ts";
import type { ServerOperation } from "./operation.ts";
import type { Sandboxes } from "./sandbox.ts";

export interface Trace {
  operation: ServerOperation;
  /** The database that it starts with; undefined: an empty one. */
  source: Files | undefined;
  /** The last point is the end of the operation. */
  points: readonly Point[];
}

/** One cut at which a process is killed. */
export interface Kill {
  trace: Trace;
  at: Cut & { statement: number };
}

/** A populated database that stays unchanged. */
export async function populatedSandbox(sandboxes: Sandboxes): Promise<Files> {
  const room = await sandboxes.takeEmpty();
  await furnish(room);
  return room;
}

/** Traces each operation. `populated` is the database that most of them start with. */
export async function tracesOf(
  operations: readonly ServerOperation[],
  sandboxes: Sandboxes,
  populated: Files,
): Promise<Trace[]> {
  const begun = await Promise.all(operations.map((operation) => begin(operation, sandboxes, populated)));
  await crash(
    begun.map(({ room, operation, report }) => ({ ...room, operation: operation.name, report })),
    0,
  );
  return begun.map(({ operation, source, room, report }) => {
    const points: Point[] = JSON.parse(readFileSync(report, "utf8"));
    refuseHalves(operation, points);
    if (source) sandboxes.giveBack(room);
    return { operation, source, points };
  });
}

async function begin(operation: ServerOperation, sandboxes: Sandboxes, populated: Files) {
  const source = await sourceOf(operation, sandboxes, populated);
  const room = await sandboxFor({ source }, sandboxes);
  return { operation, source, room, report: join(dirname(room.eventLog), "points.json") };
}

async function sourceOf({ empty, prepare }: ServerOperation, sandboxes: Sandboxes, populated: Files) {
  if (empty) return undefined;
  if (!prepare) return populated;
  const source = await sandboxes.takeEmpty();
  await prepare(source);
  return source;
}

/** A database with the rows that the operation starts with. */
export async function sandboxFor({ source }: Pick<Trace, "source">, sandboxes: Sandboxes): Promise<Files> {
  if (!source) return await sandboxes.takeEmpty();
  const room = await sandboxes.take();
  await copyRows(source, room);
  return room;
}

/** Three cuts for each statement, and one for the end. */
export function killsOf(trace: Trace): Kill[] {
  const last = trace.points.length - 1;
  const cuts = trace.points
    .slice(0, last)
    .flatMap((_, statement) =>
      (["before", "sent", "answered"] as const).map((when) => ({ trace, at: { statement, when } })),
    );
  return [...cuts, { trace, at: { statement: last, when: "before" } }];
}
