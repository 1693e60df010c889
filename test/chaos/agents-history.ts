/** Sessions of agents in a history: whose they are, and how long their attempts ran. */
import type { Entry } from "../fixtures/event-log.ts";
import type { History } from "./history.ts";
import { key } from "./promises/finder.ts";

/**
 * A session's row is named by the Manager that registered it: `host:pid:random/agent/session`. Here it gets the process of the
 * agent instead, as a worker's row has its own, so that the checker can compare it with what the agent reports.
 */
export function byAgent(history: History): History {
  const pids = new Map(
    history.entries.filter(({ what }) => what === "session").map(({ note, pid }) => [String(note), pid]),
  );
  const nameOf = <T extends string | null>(worker: T): T => {
    const session = worker?.split("/").at(-1);
    const pid = session === undefined ? undefined : pids.get(session);
    return pid === undefined ? worker : (`agent:${pid}:${session}` as T);
  };
  const renamed = <T extends { worker: string | null }>(rows: readonly T[]): T[] =>
    rows.map((row) => ({ ...row, worker: nameOf(row.worker) }));
  return {
    ...history,
    moves: renamed(history.moves),
    workerMoves: renamed(history.workerMoves),
    tasks: renamed(history.tasks),
    workers: history.workers.map(nameOf),
  };
}

/**
 * The starts of tasks whose earlier attempt still ran: by what the functions themselves have logged, whatever the database says.
 * An attempt ends with its function, or with its process.
 */
export function startedTwice(entries: readonly Entry[], killed: ReadonlyMap<number, number>): Entry[] {
  const ends = new Map(entries.filter(({ what }) => what === "end").map((entry) => [key(entry), entry.at]));
  const lastEnds = new Map<number, number>();
  return entries.filter((entry) => {
    const { what, task = 0, at, pid } = entry;
    if (what !== "start") return false;
    const before = lastEnds.get(task) ?? 0;
    const end = ends.get(key(entry)) ?? killed.get(pid) ?? Number.POSITIVE_INFINITY;
    lastEnds.set(task, Math.max(before, end));
    return at < before;
  });
}
