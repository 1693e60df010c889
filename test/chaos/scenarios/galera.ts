/** A cluster in which each node takes writes loses a node, and gets it back, again and again. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Entry } from "../../fixtures/ledger.ts";
import { Scene, type StartOptions } from "../../fixtures/scene.ts";
import { demand } from "../checker.ts";
import { demandNoConflicts, failsByLoss, tellsOfLoss } from "../conflicts.ts";
import { Crowd } from "../crowd.ts";
import { goingOn } from "../going-on.ts";
import type { AttemptRow, History } from "../history.ts";
import type { Figure, Scenario, Trial } from "../scenario.ts";
import { Galera, noGalera } from "../servers/galera.ts";
import { plans } from "./terminated.ts";

/** For each node that is killed, at least. */
const tasks = 4_000;

/** Milliseconds that a node is away before it joins again, at most, and in which all three work together. */
const away = 4_000;
const together = 3_000;

export const galera: Scenario = {
  name: "galera",
  about:
    "Workers and enqueuers on three nodes that replicate, of which one is killed and joins again: nothing is lost, nothing is done twice.",
  unit: "nodes killed",
  amounts: { test: 1, chaos: 1 },
  bringsServer: ["mysql"],
  unable: noGalera,
  async run(trial) {
    await using cluster = await Galera.start();
    try {
      return await onCluster(cluster, trial);
    } catch (error) {
      cluster.save(join(trial.scene.folder, "saved"));
      throw error;
    }
  },
};

async function onCluster(
  cluster: Galera,
  { amount, random, progress, scene: { folder } }: Trial,
): Promise<Figure[]> {
  await using scene = await Scene.on(cluster.url(0), join(folder, "scene"));
  // Its files go with the trial's own folder, which stays when it fails; its database goes with the cluster.
  scene.keep();
  const crowd = await Crowd.start(scene, {
    workers: 6,
    enqueuers: 3,
    worker: { concurrency: 10 },
    enqueuing: { plans, pause: 50, longest: 100 },
    how: byTurns(cluster, scene.database),
  });
  const moments: number[] = [];
  for (let done = 1; done <= amount; done += 1) {
    const node = (done - 1) % cluster.size;
    await sleep(together * (0.5 + random()));
    moments.push(Date.now());
    await cluster.kill(node);
    await sleep(away * random());
    await cluster.join(node);
    progress(done);
  }
  while (scene.ledger.entries("acknowledged").length < tasks * amount) await sleep(100);
  const history = await crowd.rest();
  const clashes = [...history.entries.filter(clashesAsApp), ...history.attempts.filter(failsByClash)];
  demand(history, {
    unanswered: true,
    allowed: (entry) => tellsOfLoss(entry) || clashesAsApp(entry),
    mayFail: (attempt) => failsByLoss(attempt) || failsByClash(attempt),
  });
  demandNoConflicts(withoutClashes(history));
  return [
    { name: "nodes killed", value: amount },
    { name: "transactions in conflict", value: clashes.length },
    ...goingOn(history, crowd, moments, { max: 5_000 }),
  ];
}

/** Each process has another node first. */
function byTurns(cluster: Galera, database: string): () => StartOptions {
  let started = 0;
  const name = database.slice(database.lastIndexOf("/") + 1);
  return () => {
    started += 1;
    return { database: `${cluster.url(started % cluster.size)}${name}` };
  };
}

/** An app's own transaction may lose to another node's, or to a change of the group: nobody repeats it but the app. */
const clash = /ER_LOCK_DEADLOCK|Deadlock found|Lock wait timeout/;

const clashesAsApp = ({ what, note }: Entry) =>
  what === "refused" && /^(order|rolled):/.test(String(note)) && clash.test(String(note));
/** Only a handler's own transaction is told of. */
const failsByClash = ({ error }: AttemptRow) => clash.test(error ?? "");

const withoutClashes = ({ entries, attempts, ...rest }: History): History => ({
  ...rest,
  entries: entries.filter((entry) => !clashesAsApp(entry)),
  attempts: attempts.filter((attempt) => !failsByClash(attempt)),
});
