/** How all go on when a server was away for a moment, or ended their connections. */
import { deepStrictEqual } from "node:assert/strict";
import type { Entry } from "../fixtures/ledger.ts";
import { failsByLoss } from "./conflicts.ts";
import { type Crowd, isCrash, pidOf } from "./crowd.ts";
import type { History } from "./history.ts";
import { type Figure, spread } from "./scenario.ts";

/** What counts as going on. */
interface Sign {
  name: string;
  /** Milliseconds that it may take. */
  most: { p99?: number; max: number };
  /** Of each of these processes, when it gave a sign, in the order of time. */
  pids: readonly number[];
  given: readonly { pid: number; at: number }[];
}

/** From each moment on, until each of them gave a sign again. @throws when one never did */
function again({ name, most, pids, given }: Sign, moments: readonly number[]): Figure[] {
  const next = moments.flatMap((moment) =>
    pids.map((pid) => ({ moment, pid, at: given.find((sign) => sign.pid === pid && sign.at > moment)?.at })),
  );
  const never = next.filter(({ at }) => at === undefined);
  deepStrictEqual(never, [], `${name}: each of them goes on`);
  return spread(
    name,
    next.map(({ at = 0, moment }) => at - moment),
    most,
  );
}

/** What the loss costs: `moments` is when each was, `most` how long all may take to go on. */
export function goingOn(
  history: History,
  { workers, enqueuers }: Crowd,
  moments: readonly number[],
  most: { p99?: number; max: number },
): Figure[] {
  const { moves, tasks, entries, attempts } = history;
  const told = (name: RegExp) => (entry: Entry) =>
    entry.what === "acknowledged" && name.test(String(entry.note));
  const claims = moves.filter(({ status }) => status === "running");
  const [working, enqueuing] = [workers, enqueuers].map((all) => all.map(({ pid }) => pid)) as [
    number[],
    number[],
  ];
  const claimed = claims.map((move) => ({ pid: pidOf(move), at: move.at }));
  return [
    { name: "tasks", value: tasks.length },
    { name: "enqueues that failed", value: entries.filter(({ what }) => what === "refused").length },
    { name: "attempts that failed so", value: attempts.filter(failsByLoss).length },
    { name: "attempts lost by living workers", value: moves.filter(isCrash).length },
    ...again({ name: "until a claim", most, pids: working, given: claimed }, moments),
    ...again(
      { name: "until an enqueue", most, pids: enqueuing, given: entries.filter(told(/^(single|batch)/)) },
      moments,
    ),
    ...again(
      { name: "until a transaction", most, pids: enqueuing, given: entries.filter(told(/^order/)) },
      moments,
    ),
  ];
}
