/** SIGKILL before and after each statement of each operation. */
import { mkdirSync, realpathSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { type Course, coursesOf, filesIn } from "../crash/course.ts";
import { furnish } from "../crash/furnished.ts";
import { type Kill, killAt, survives } from "../crash/kill.ts";
import type { Operation } from "../crash/operation.ts";
import { operations } from "../crash/operations.ts";
import type { Figure, Scenario, Trial } from "../scenario.ts";

/** Points that one process is killed at. */
const together = 16;

export const crashpoints: Scenario = {
  name: "crashpoints",
  about: "Killed before and after each statement, each operation is whole or not begun, and the queue heals.",
  unit: "points",
  amounts: { test: 60, chaos: 10_000 },
  only: { kinds: ["sqlite"], why: "it stops a driver that is synchronous, and compares copies of the file" },
  async run(trial) {
    const courses = await findPoints(join(realpathSync(trial.scene.folder), "crash"));
    const all = courses.flatMap((course) => course.points.map((_, at) => ({ course, at })));
    const [batches, broken] = [batchesOf(evenly(all, trial)), [] as unknown[]];
    let [done, killed, spared] = [0, 0, 0];
    await inLanes(batches, async (kills) => {
      await killAt(kills);
      for (const kill of kills) {
        try {
          if (await survives(kill)) killed += 1;
          else spared += 1;
        } catch (error) {
          broken.push(error);
        }
        done += 1;
        trial.progress(done);
      }
    });
    if (broken.length > 0) throw new Error(report(broken, killed + broken.length));
    return figures(all.length, killed, spared, batches.length);
  },
};

function figures(all: number, killed: number, spared: number, processes: number): Figure[] {
  return [
    { name: "operations", value: operations.length },
    { name: "points in all", value: all },
    { name: "points", value: killed },
    { name: "points survived", value: killed },
    // Of a worker's life, whose timers make it a few statements longer or shorter each time.
    { name: "points not come to", value: spared },
    { name: "processes killed", value: processes },
  ];
}

async function findPoints(folder: string): Promise<Course[]> {
  const furnished = join(folder, "furnished");
  mkdirSync(furnished, { recursive: true });
  await furnish(filesIn(furnished));
  const folderOf = (operation: Operation) => join(folder, String(operations.indexOf(operation)));
  const found = await inLanes(chunks(operations, 12), (some) => coursesOf(some, folderOf, furnished));
  return found.flat();
}

/** What varies has processes of its own: what was stopped of it tries again, and takes time from the others. */
function batchesOf(kills: readonly Kill[]): Kill[][] {
  const varies = ({ course }: Kill) => course.operation.commits === undefined;
  return [
    ...chunks(kills.filter(varies), together / 2),
    ...chunks(
      kills.filter((kill) => !varies(kill)),
      together,
    ),
  ];
}

function chunks<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );
}

/** As many as are asked for, as far apart from each other as they can be. */
function evenly<T>(all: readonly T[], { amount, random }: Pick<Trial, "amount" | "random">): T[] {
  if (amount >= all.length) return [...all];
  const [step, first] = [all.length / amount, random()];
  return Array.from({ length: amount }, (_, i) => all[Math.floor((i + first) * step)] as T);
}

/** Some at a time: each is a process that is mostly busy, and its judge, who is this one. */
async function inLanes<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const lane = async () => {
    while (next < items.length) {
      const i = next++;
      results[i] = await act(items[i] as T);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() + 1 }, lane));
  return results;
}

function report(broken: readonly unknown[], killed: number): string {
  const [first, others] = [broken.slice(0, 5), broken.slice(5)];
  const told = [
    ...first.map((error) => inspect(error)),
    ...others.map(
      (error) => `${(error as Error).message}: ${((error as Error).cause as Error).message.slice(0, 160)}`,
    ),
  ];
  return `${broken.length} of ${killed} points were not survived:\n${told.join("\n")}`;
}
