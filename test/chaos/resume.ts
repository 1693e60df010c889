/** Measures how fast all processes go on after a server was down or ended their connections. */
import { deepStrictEqual } from "node:assert/strict";
import type { Entry } from "../fixtures/event-log.ts";
import { failsByLoss } from "./conflicts.ts";
import type { History } from "./history.ts";
import { isCrash, type Load, pidOf } from "./load.ts";
import { type Figure, spread } from "./scenario.ts";

/** A sign that a process goes on. */
interface Sign {
  name: string;
  /** The longest times allowed, in milliseconds. */
  most: { p99?: number; max: number };
  /** The processes, and the time of each sign, in order of time. */
  pids: readonly number[];
  given: readonly { pid: number; at: number }[];
}

/** For each moment and each process, the time until its next sign. @throws Error when there is none */
function again({ name, most, pids, given }: Sign, moments: readonly number[]): Figure[] {
  const next = moments.flatMap((moment) =>
    pids.map((pid) => ({ moment, pid, at: given.find((sign) => sign.pid === pid && sign.at > moment)?.at })),
  );
  const never = next.filter(({ at }) => at === undefined);
  deepStrictEqual(never, [], `${name}: each process goes on`);
  return spread(
    name,
    next.map(({ at = 0, moment }) => at - moment),
    most,
  );
}

/** The effects of the losses at `moments`; `most` is how long the processes may take to go on. */
export function resumeFigures(
  history: History,
  { workers, enqueuers }: Load,
  moments: readonly number[],
  most: { p99?: number; max: number },
): Figure[] {
  const { moves, tasks, entries, attempts } = history;
  const acknowledged = (name: RegExp) => (entry: Entry) =>
    entry.what === "acknowledged" && name.test(String(entry.note));
  const claims = moves.filter(({ status }) => status === "running");
  const [working, enqueuing] = [workers, enqueuers].map((all) => all.map(({ pid }) => pid)) as [
    number[],
    number[],
  ];
  const claimed = claims.map((move) => ({ pid: pidOf(move), at: move.at }));
  return [
    { name: "tasks", value: tasks.length },
    { name: "failed enqueues", value: entries.filter(({ what }) => what === "refused").length },
    { name: "attempts failed by a lost connection", value: attempts.filter(failsByLoss).length },
    { name: "rescued attempts of live workers", value: moves.filter(isCrash).length },
    ...again({ name: "until the next claim", most, pids: working, given: claimed }, moments),
    ...again(
      {
        name: "until the next enqueue",
        most,
        pids: enqueuing,
        given: entries.filter(acknowledged(/^(single|batch)/)),
      },
      moments,
    ),
    ...again(
      {
        name: "until the next transaction",
        most,
        pids: enqueuing,
        given: entries.filter(acknowledged(/^order/)),
      },
      moments,
    ),
  ];
}
