/** SIGKILL at each statement of each operation on a server: before it is sent, when it is, and when it is answered. */
import { chunks, evenly, inLanes, report } from "../crash/batches.ts";
import type { Files } from "../crash/operation.ts";
import { type Course, coursesOf, furnishedRoom, type Kill, killsOf } from "../crash/server/course.ts";
import { type Fate, kill } from "../crash/server/kill.ts";
import { operations } from "../crash/server/operations.ts";
import { Rooms } from "../crash/server/room.ts";
import type { Figure, Scenario, Trial } from "../scenario.ts";
import { schemaOf } from "../schema.ts";

/** Cuts that one process is killed at: each has some connections. */
const together = 8;

/** Not more on more processors: a lane has some twenty connections, of the hundred that a server has for all. */
const lanes = 2;

export const cutpoints: Scenario = {
  name: "cutpoints",
  about:
    "Killed before, with and after each statement that a server is asked, each operation is whole or not begun, and the queue heals.",
  unit: "points",
  amounts: { test: 6, sample: 100, chaos: 10_000 },
  only: {
    kinds: ["postgres", "mysql"],
    why: "a file has crashpoints, which stops a driver that is synchronous",
  },
  async run(trial) {
    const rooms = Array.from({ length: lanes }, () => new Rooms(trial.scene));
    const furnished = await furnishedRoom(rooms[0] as Rooms);
    const { digest } = await schemaOf(furnished.database);
    const courses = await findCourses(trial, rooms, furnished);
    const all = courses.flatMap(killsOf);
    const batches = batchesOf(evenly(all, trial));
    const [fates, broken] = [[] as Fate[], [] as unknown[]];
    await inLanes(lanes, batches, async (kills, lane) => {
      for (const fate of await kill(kills, rooms[lane] as Rooms, digest)) {
        if (typeof fate === "string") fates.push(fate);
        else broken.push(fate.broken);
        trial.progress(fates.length + broken.length);
      }
    });
    if (broken.length > 0) throw new Error(report(broken, fates.length + broken.length));
    return figures(courses.length, all.length, fates, batches.length);
  },
};

function figures(operations: number, all: number, fates: readonly Fate[], processes: number): Figure[] {
  const count = (fate: Fate) => fates.filter((each) => each === fate).length;
  const killed = fates.length - count("spared");
  return [
    { name: "operations", value: operations },
    { name: "points in all", value: all },
    { name: "points", value: killed },
    { name: "points survived", value: killed },
    // Of a worker's life, whose timers make it a few statements longer or shorter each time.
    { name: "points not come to", value: count("spared") },
    // Of what changes something, and was sent by a process that did not live to hear of it.
    { name: "changes that the server made", value: count("sent and made") },
    { name: "changes that it did not make", value: count("sent and undone") },
    { name: "processes killed", value: processes },
  ];
}

/** Of as many operations as have so many points. Each lane has rooms of its own. */
async function findCourses(
  { kind, amount, random }: Trial,
  rooms: readonly Rooms[],
  furnished: Files,
): Promise<Course[]> {
  const possible = operations.filter(({ only = kind }) => only === kind);
  const some = evenly(possible, { amount: Math.ceil(amount / 3), random });
  const found = await inLanes(lanes, chunks(some, together), (few, lane) =>
    coursesOf(few, rooms[lane] as Rooms, furnished),
  );
  return found.flat();
}

/**
 * What varies has processes of its own: what was cut of it tries again, and takes time from the others. So has what opens:
 * a lock that all databases of a server share must not be held while others go on.
 */
function batchesOf(kills: readonly Kill[]): Kill[][] {
  const varying = kills.filter(({ course }) => course.operation.commits === undefined);
  const opening = kills.filter(({ course }) => course.source === undefined);
  const others = kills.filter((one) => !varying.includes(one) && !opening.includes(one));
  return [...chunks(varying, together / 2), ...chunks(opening, 1), ...chunks(others, together)];
}
