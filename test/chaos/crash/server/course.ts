/** The trace of an operation on a server: its statements, recorded by a process that is not killed. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Cut, Point } from "../../../fixtures/crash-server.ts";
import { refuseHalves } from "../course.ts";
import { furnish } from "../furnished.ts";
import type { Files } from "../operation.ts";
import { copyRows } from "./copy.ts";
import { crash } from "./crash.ts";
import type { ServerOperation } from "./operation.ts";
import type { Rooms } from "./room.ts";

export interface Course {
  operation: ServerOperation;
  /** The database that it starts with; undefined: an empty one. */
  source: Files | undefined;
  /** The last point is the end of the operation. */
  points: readonly Point[];
}

/** One cut at which a process is killed. */
export interface Kill {
  course: Course;
  at: Cut & { statement: number };
}

/** A populated database that stays unchanged. */
export async function furnishedRoom(rooms: Rooms): Promise<Files> {
  const room = await rooms.takeEmpty();
  await furnish(room);
  return room;
}

/** Traces each operation. `populated` is the database that most of them start with. */
export async function coursesOf(
  operations: readonly ServerOperation[],
  rooms: Rooms,
  furnished: Files,
): Promise<Course[]> {
  const begun = await Promise.all(operations.map((operation) => begin(operation, rooms, furnished)));
  await crash(
    begun.map(({ room, operation, report }) => ({ ...room, operation: operation.name, report })),
    0,
  );
  return begun.map(({ operation, source, room, report }) => {
    const points: Point[] = JSON.parse(readFileSync(report, "utf8"));
    refuseHalves(operation, points);
    if (source) rooms.giveBack(room);
    return { operation, source, points };
  });
}

async function begin(operation: ServerOperation, rooms: Rooms, furnished: Files) {
  const source = await sourceOf(operation, rooms, furnished);
  const room = await roomFor({ source }, rooms);
  return { operation, source, room, report: join(dirname(room.ledger), "points.json") };
}

async function sourceOf({ empty, prepare }: ServerOperation, rooms: Rooms, furnished: Files) {
  if (empty) return undefined;
  if (!prepare) return furnished;
  const source = await rooms.takeEmpty();
  await prepare(source);
  return source;
}

/** A database with the rows that the operation starts with. */
export async function roomFor({ source }: Pick<Course, "source">, rooms: Rooms): Promise<Files> {
  if (!source) return await rooms.takeEmpty();
  const room = await rooms.take();
  await copyRows(source, room);
  return room;
}

/** Three cuts for each statement, and one for the end. */
export function killsOf(course: Course): Kill[] {
  const last = course.points.length - 1;
  const cuts = course.points
    .slice(0, last)
    .flatMap((_, statement) =>
      (["before", "sent", "answered"] as const).map((when) => ({ course, at: { statement, when } })),
    );
  return [...cuts, { course, at: { statement: last, when: "before" } }];
}
