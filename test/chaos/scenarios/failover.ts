/**
 * Invariant: when the primary dies and its standby is promoted, nothing acknowledged is lost, nothing is finished twice,
 * and all processes go on within two seconds after the new primary takes writes.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Harness } from "../../fixtures/harness.ts";
import { demand } from "../checker.ts";
import { demandNoConflicts, failsByLoss, reportsLoss } from "../conflicts.ts";
import { plans } from "../disturbed.ts";
import { Listener } from "../listener.ts";
import { Load } from "../load.ts";
import { resumeFigures, untilResumed } from "../resume.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";
import { onOwnServer } from "../servers/own-server.ts";
import { type Loss, noPatroni, Patroni } from "../servers/patroni.ts";

/** Milliseconds in which primary and standby work together, at most. */
const together = 3_000;

/** In each fifth fail-over the whole machine is gone, and Patroni waits for the end of its lease of 20 s. */
const lossOf = (round: number): Loss => (round % 5 === 0 ? "machine" : "server");

export const failover: Scenario = {
  name: "failover",
  about:
    "The primary is killed under load and Patroni promotes its synchronous standby: every acknowledged task is kept and done once, and all processes go on within two seconds of the promotion.",
  unit: "fail-overs",
  amounts: { test: 1, sample: 2, chaos: 5 },
  bringsServer: ["postgres"],
  unable: noPatroni,
  run: (trial) => onOwnServer(() => Patroni.start(), trial, onCluster),
};

async function onCluster(
  cluster: Patroni,
  { amount, random, progress, harness: { folder } }: Trial,
): Promise<Figure[]> {
  await using harness = await Harness.on(cluster.url, join(folder, "harness"));
  // Its files are removed with the trial's folder, which stays after a failure; its database with the cluster.
  harness.keep();
  const load = await Load.start(harness, {
    workers: 4,
    enqueuers: 2,
    worker: { concurrency: 5 },
    enqueuing: { plans, pause: 150 },
  });
  const listener = await Listener.start(harness);
  load.workers.push(listener.worker);
  const promoted: number[] = [];
  const took: Record<Loss, number[]> = { server: [], machine: [] };
  let others = 0;
  for (let done = 1; done <= amount; done += 1) {
    const primary = await cluster.synchronous();
    await sleep(together * random());
    const loss = lossOf(done);
    const killed = Date.now();
    if (await cluster.lose(primary, loss)) others += 1;
    promoted.push(Date.now());
    took[loss].push(Date.now() - killed);
    if (loss === "machine") await cluster.up(primary);
    await untilResumed(harness, load, promoted.at(-1) as number);
    progress(done);
  }
  await sleep(together);
  await listener.stop();
  const history = await load.drain();
  demand(history, { allowed: reportsLoss, mayFail: failsByLoss, unanswered: true });
  demandNoConflicts(history);
  return [
    { name: "fail-overs", value: amount },
    { name: "to the standby", value: others },
    ...Object.entries(took).flatMap(([loss, times]) =>
      times.length === 0 ? [] : spread(`Patroni's fail-over from a lost ${loss}`, times),
    ),
    ...resumeFigures(history, load, promoted, { p99: 1_000, max: 2_000 }),
    ...listener.figures("from promotion to notification", promoted),
  ];
}
