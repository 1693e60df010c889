/**
 * Invariant: behind a pooler, too, kills of workers and of the pooler itself lose nothing and do nothing twice, and all
 * processes go on by themselves.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Harness } from "../../fixtures/harness.ts";
import { demand } from "../checker.ts";
import { demandNoConflicts, failsByLoss, reportsLoss } from "../conflicts.ts";
import { plans } from "../disturbed.ts";
import { isCrash, Load, pidOf } from "../load.ts";
import { processOf } from "../promises/finder.ts";
import { resumeFigures, untilResumed } from "../resume.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";
import { noPoolers, OwnPooler, type PoolerName, poolerKinds } from "../servers/own-pooler.ts";
import { noPostgres, OwnPostgres } from "../servers/own-postgres.ts";
import { onOwnServer } from "../servers/own-server.ts";

/** Milliseconds between two kills, on average. */
const pause = 300;

export const behindPooler = (name: PoolerName): Scenario => ({
  name: `behind ${name}`,
  about: "Workers are killed at random moments, and then the pooler: nothing is lost or done twice.",
  unit: "kills",
  amounts: { test: 3, sample: 10, chaos: 50 },
  bringsServer: ["postgres"],
  unable: () => noPoolers() ?? noPostgres(),
  run: (trial) =>
    onOwnServer(
      () => OwnPostgres.start(),
      trial,
      async (server) => {
        await using pooler = await OwnPooler.start(name, server.url);
        return await through(pooler, poolerKinds[name].sessions, server.url, trial);
      },
    ),
});

/** The test looks at the server itself; the processes reach it through the pooler. */
async function through(
  pooler: OwnPooler,
  sessions: boolean,
  server: string,
  { amount, random, progress, harness: { folder } }: Trial,
): Promise<Figure[]> {
  await using harness = await Harness.open(join(folder, "harness"), server);
  // Its files are removed with the trial's folder, which stays after a failure; its database with the server.
  harness.keep();
  const queue = { sessions };
  const load = await Load.start(harness, {
    workers: 3,
    enqueuers: 1,
    worker: { concurrency: 4, lease: 2_000, queue },
    enqueuing: { plans, pause: 150, queue },
    how: () => ({ database: pooler.through(server) }),
  });
  for (let done = 1; done <= amount; done += 1) {
    await sleep(2 * pause * random());
    await load.killWorker(random);
    await load.addWorker();
    progress(done);
  }
  // It ends the sessions of all workers: one that does not come back within 300 ms is taken for dead.
  const cutAt = Date.now();
  await pooler.kill();
  await pooler.up();
  const moments = [Date.now()];
  for (const moment of moments) await untilResumed(harness, load, moment);
  const resumedAt = Date.now();
  const history = await load.drain();
  const mayDie = (id: string, at: number) =>
    load.killed.has(processOf(id)) || (at >= cutAt && at <= resumedAt);
  demand(history, { mayDie, allowed: reportsLoss, mayFail: failsByLoss, unanswered: true });
  demandNoConflicts(history);
  const freed = history.moves
    .filter((move) => isCrash(move) && load.killed.has(pidOf(move)))
    .map((move) => move.at - (load.killed.get(pidOf(move)) ?? Number.NaN));
  return [
    { name: "kills", value: amount },
    ...spread("from kill to freed", freed, { max: 1_000 }),
    ...resumeFigures(history, load, moments, { max: 2_000 }),
  ];
}
