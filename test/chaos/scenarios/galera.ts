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
import { type Data, Galera, noGalera } from "../servers/galera.ts";
import { plans } from "./terminated.ts";

/** For each node that is killed, at least. */
const tasks = 4_000;

/**
 * Milliseconds in which everybody goes on, whatever is done to the nodes. The cluster itself takes three of them: what it
 * needs to find out that a node is gone is set to 2 s, as on a network of one place (`servers/galera.ts`); with what Galera
 * has by default, 5 s, nobody can write for six.
 */
const longest = 5_000;

/** Milliseconds that a node is away before it joins again, at most, and in which all three work together. */
const away = 4_000;
const together = 3_000;

export const galera: Scenario = {
  name: "galera",
  about:
    "Workers and enqueuers on three nodes that replicate, of which one is killed and joins again: nothing is lost, nothing is done twice, all go on within five seconds.",
  unit: "nodes killed",
  amounts: { test: 1, sample: 2, chaos: 5 },
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
  const joins: Record<Data, number[]> = { kept: [], lost: [] };
  for (let done = 1; done <= amount; done += 1) {
    const node = (done - 1) % cluster.size;
    await sleep(together * (0.5 + random()));
    moments.push(Date.now());
    await cluster.kill(node);
    await sleep(away * random());
    const data: Data = done % 2 === 1 ? "kept" : "lost";
    const begun = performance.now();
    await cluster.join(node, data);
    joins[data].push(performance.now() - begun);
    progress(done);
  }
  while (enqueuedBy(scene) < tasks * amount) await sleep(100);
  const history = await crowd.rest();
  const clashes = [...history.entries.filter(clashesAsApp), ...history.attempts.filter(failsByClash)];
  const misreads = [...history.entries.filter(tellsOfMisread), ...history.attempts.filter(failsByMisread)];
  demand(history, {
    unanswered: true,
    allowed: (entry) => [tellsOfLoss, clashesAsApp, leftAsApp, tellsOfMisread].some((is) => is(entry)),
    mayFail: (attempt) =>
      [failsByLoss, failsByClash, failsByLeaving, failsByMisread].some((is) => is(attempt)),
  });
  demandNoConflicts(withoutClashes(history));
  return [
    { name: "nodes killed", value: amount },
    { name: "transactions in conflict", value: clashes.length },
    { name: "told of triggers misread", value: misreads.length },
    ...goingOn(history, crowd, moments, { max: longest }),
    { name: "longest pause of all", value: pauseSince(history, moments[0]), unit: "ms", most: longest },
    ...Object.entries(joins).map(([data, times]) => ({
      name: `joined, its data ${data}, max`,
      value: Math.max(0, ...times),
      unit: "ms",
    })),
  ];
}

/** Who finds that his unique key is taken is told of a task that is there already. */
const enqueuedBy = ({ ledger }: Scene): number =>
  new Set(ledger.entries("acknowledged").map(({ task }) => task)).size;

/** The longest time without a claim, while there was something to claim: a node that joins makes the others wait too. */
function pauseSince({ moves, entries }: History, first = 0): number {
  const enqueued = entries.filter(({ what }) => what === "acknowledged").map(({ at }) => at);
  const end = enqueued.reduce((last, at) => Math.max(last, at), 0);
  const claims = moves.filter(({ status }) => status === "running").map(({ at }) => at);
  const times = claims.filter((at) => at >= first && at <= end).sort((a, b) => a - b);
  return times.reduce((most, at, n) => Math.max(most, at - (times[n - 1] ?? at)), 0);
}

/**
 * The processes are given the nodes in each order that there is, by turns: who loses a node goes on to the next of his own
 * list, and if that were the same one for all, they would all be on one node from the second loss on.
 */
function byTurns(cluster: Galera, database: string): () => StartOptions {
  let started = 0;
  const name = database.slice(database.lastIndexOf("/") + 1);
  return () => {
    started += 1;
    return { database: `${cluster.url(started % cluster.size, started % 2 === 0)}${name}` };
  };
}

/** An app's own transaction may lose to another node's, or to a change of the group: nobody repeats it but the app. */
const clash = /ER_LOCK_DEADLOCK|Deadlock found|Lock wait timeout/;

const isApps = ({ what, note }: Entry) => what === "refused" && /^(order|rolled):/.test(String(note));
const clashesAsApp = (entry: Entry) => isApps(entry) && clash.test(String(entry.note));
/** Only a handler's own transaction is told of. */
const failsByClash = ({ error }: AttemptRow) => clash.test(error ?? "");

/** So may it end on a node that does not know whether it belongs to those who are left. */
const left = /WSREP has not yet prepared node for application use/;

const leftAsApp = (entry: Entry) => isApps(entry) && left.test(String(entry.note));
const failsByLeaving = ({ error }: AttemptRow) => left.test(error ?? "");

/**
 * A fault of MariaDB (10.11.19): a statement that is broken off while it opens a table and reads its triggers, as `kill
 * query` does and another node's transaction, leaves that table in the cache as one whose triggers are wrong, and all who
 * are given it are refused until it is flushed. The triggers are the audit's. Seen here once in some dozen runs; on one
 * server at once, with `kill query` beside `flush tables`.
 */
const misread = /rigger (?:'audit_\w+' )?has an error in its body/;

const tellsOfMisread = ({ note }: Entry) => misread.test(String(note));
const failsByMisread = ({ error }: AttemptRow) => misread.test(error ?? "");

const withoutClashes = ({ entries, attempts, ...rest }: History): History => ({
  ...rest,
  entries: entries.filter((entry) => !clashesAsApp(entry)),
  attempts: attempts.filter((attempt) => !failsByClash(attempt)),
});
