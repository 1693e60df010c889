/** Measures how fast all processes go on after a server was down or ended their connections. */
import { deepStrictEqual } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Entry } from "../fixtures/event-log.ts";
import type { Child, Harness } from "../fixtures/harness.ts";
import type { Move } from "./audit.ts";
import { openRaw } from "./backends/backend.ts";
import { failsByLoss } from "./conflicts.ts";
import type { History } from "./history.ts";
import { isCrash, type Load, pidOf } from "./load.ts";
import { type Figure, spread } from "./scenario.ts";

/** Milliseconds in which each process must go on. It only turns a hang into a failure: the figures have the limits. */
const hang = 30_000;

/** A sign that a process goes on. */
interface Sign {
  name: string;
  /** Who gives it. */
  processes: readonly Child[];
  given: readonly { pid: number; at: number }[];
}

type Claim = Pick<Move, "worker" | "at">;

function signsOf({ workers, enqueuers }: Load, claims: readonly Claim[], entries: readonly Entry[]): Sign[] {
  const acknowledged = (name: RegExp) =>
    entries.filter(({ what, note }) => what === "acknowledged" && name.test(String(note)));
  return [
    {
      name: "until the next claim",
      processes: workers,
      given: claims.map((claim) => ({ pid: pidOf(claim), at: claim.at })),
    },
    { name: "until the next enqueue", processes: enqueuers, given: acknowledged(/^(single|batch)/) },
    { name: "until the next transaction", processes: enqueuers, given: acknowledged(/^order/) },
  ];
}

/** For each process, when it gave the next sign after a moment. */
const nextAfter = ({ processes, given }: Sign, moment: number) =>
  processes.map(({ pid }) => ({
    moment,
    pid,
    at: given.find((sign) => sign.pid === pid && sign.at > moment)?.at,
  }));

/** Waits until each process goes on after this moment. Returns early when one does not: `resumeFigures` reports that. */
export async function untilResumed(
  { database, eventLog }: Pick<Harness, "database" | "eventLog">,
  load: Load,
  moment: number,
): Promise<void> {
  await using raw = await openRaw(database);
  for (const end = performance.now() + hang; performance.now() < end; await sleep(50)) {
    const claims = await raw.all<Claim>("select worker, at from audit where status = 'running' order by seq");
    const next = signsOf(load, claims, eventLog.entries()).flatMap((sign) => nextAfter(sign, moment));
    if (next.every(({ at }) => at !== undefined)) return;
  }
}

/** The effects of the losses at `moments`; `most` is how long the processes may take to go on. */
export function resumeFigures(
  { moves, tasks, entries, attempts }: History,
  load: Load,
  moments: readonly number[],
  most: { p99?: number; max: number },
): Figure[] {
  const claims = moves.filter(({ status }) => status === "running");
  const spreads = signsOf(load, claims, entries).flatMap((sign) => {
    const next = moments.flatMap((moment) => nextAfter(sign, moment));
    const never = next.filter(({ at }) => at === undefined);
    deepStrictEqual(never, [], `${sign.name}: each process goes on`);
    return spread(
      sign.name,
      next.map(({ at = 0, moment }) => at - moment),
      most,
    );
  });
  return [
    { name: "tasks", value: tasks.length },
    { name: "failed enqueues", value: entries.filter(({ what }) => what === "refused").length },
    { name: "attempts failed by a lost connection", value: attempts.filter(failsByLoss).length },
    { name: "rescued attempts of live workers", value: moves.filter(isCrash).length },
    ...spreads,
  ];
}
