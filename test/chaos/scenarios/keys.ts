/**
 * Invariant: whichever enqueuer or worker is killed at whichever moment, no two tasks hold one unique key at once, however the
 * key is held.
 */
import { deepStrictEqual, equal } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Harness } from "../../fixtures/harness.ts";
import type { Look, Seen } from "../../fixtures/observer.ts";
import { taken } from "../../fixtures/unique-enqueuer.ts";
import { audit, type Move } from "../audit.ts";
import { backendOf, openRaw } from "../backends/backend.ts";
import { demand } from "../checker.ts";
import { Crew } from "../crew.ts";
import { drain, stopAll } from "../drain.ts";
import { type History, historyOf } from "../history.ts";
import { seenBy } from "../observed.ts";
import { isClaim, isFinish, processOf } from "../promises/finder.ts";
import type { Figure, Scenario } from "../scenario.ts";

const enqueuers = 3;

/** Milliseconds between two kills, on average. */
const pause = 350;

/** Milliseconds by which two times may differ because of rounding. */
const rounding = 10;

/** More than one unfinished task of a key that is held until a task has finished. */
const looks: readonly Look[] = [
  {
    query: `select request_id as place, count(*) as tasks from dbq_tasks
      where status in ('pending', 'scheduled', 'running') and request_id not like 'started%'
      group by request_id`,
    pause: 5,
    most: 1,
  },
];

export const keys: Scenario = {
  name: "keys",
  about:
    "Enqueuers and workers of few unique keys are killed, whose tasks hold them until they finish, until they start or for a time: no key is held twice.",
  unit: "kills",
  amounts: { test: 6, sample: 20, chaos: 300 },
  async run({ harness, amount, random, progress }) {
    await audit(harness.database);
    const begin = () => harness.worker({ concurrency: 4, lease: 2_000 });
    const crew = await Crew.start(begin, { workers: 4, leastReady: 2 });
    const all = Array.from({ length: enqueuers }, (_, n) => start(harness, n));
    const observer = harness.start("observer.ts", [looks]);
    await harness.eventLog.until("watching");
    await harness.eventLog.until("start");
    for (let kills = 1; kills <= amount; kills += 1) {
      await sleep(pause * (0.5 + random()));
      if (random() < 0.6) await crew.killOne(random);
      else {
        const n = Math.floor(random() * enqueuers);
        await all[n]?.kill();
        all[n] = start(harness, kills);
      }
      progress(kills);
    }
    await stopAll(all);
    await drain(harness);
    await stopAll([observer]);
    await crew.stop();
    const history = await historyOf(harness);
    demand(history, { mayDie: (id) => crew.killed.has(processOf(id)) });
    const [seen] = seenBy(looks, harness.eventLog) as [Seen];
    equal(seen.most <= 1, true, "the observer sees no key with two holders");
    await heldForLongEnough(harness);
    return figures(history, amount, seen);
  },
};

const start = (harness: Harness, first: number): Child =>
  harness.start("unique-enqueuer.ts", [String(first)]);

/** When a task gives its key up: when it starts, or when it has finished. */
const givesUp = (key: string, move: Move) => (key.startsWith("started") ? isClaim(move) : isFinish(move));

function figures({ moves, tasks, entries }: History, kills: number, seen: Seen): Figure[] {
  const keyOf = new Map(tasks.map(({ id, requestId }) => [id, requestId ?? ""]));
  const holders = new Map<string, Set<number>>();
  const twice: Move[] = [];
  for (const move of moves) {
    const key = keyOf.get(move.task) ?? "";
    const held = holders.get(key) ?? new Set();
    holders.set(key, held);
    if (move.wasStatus === null) held.add(move.task);
    else if (givesUp(key, move)) held.delete(move.task);
    if (held.size > 1) twice.push(move);
  }
  deepStrictEqual(twice.slice(0, 5), [], "no two tasks hold one key at once");
  const acknowledged = entries.filter(({ what }) => what === "acknowledged");
  return [
    { name: "kills", value: kills },
    { name: "keys", value: holders.size },
    { name: "tasks", value: tasks.length },
    { name: "acknowledged enqueues", value: acknowledged.length },
    { name: "looks of the observer", value: seen.looks },
    { name: "most holders of a key", value: seen.most, most: 1 },
  ];
}

/** @throws Error when a key that is taken for a time was given to another task before */
async function heldForLongEnough({ database }: Harness): Promise<void> {
  const created = backendOf(database).audit.millis("created_at");
  await using raw = await openRaw(database);
  const rows = await raw.all<{ place: string; at: number }>(
    `select request_id as place, ${created} as at from dbq_tasks where request_id like 'for-%' order by request_id, id`,
  );
  const early = rows.filter(({ place, at }, n) => {
    const before = rows[n - 1];
    return before?.place === place && Number(at) - Number(before.at) < taken - rounding;
  });
  deepStrictEqual(early, [], `a key stays taken for ${taken} ms`);
}
