/**
 * How many tasks of each limit really ran, by what the tasks themselves have logged. The task of a killed process does not run
 * any more, although its row does until a rescue. The tasks that count for a limit have its name as their `requestId`.
 */
import type { History } from "./history.ts";
import { key } from "./promises/finder.ts";

export interface Watched {
  /** The time in which tasks of each limit wait, in milliseconds since 1970. */
  from: number;
  until: number;
  /** How many tasks of a limit may run at once. */
  most: number;
  names: readonly string[];
}

/** A time in which fewer tasks ran than a limit allows, in milliseconds. */
export interface Empty {
  whole: number;
  /** Without what was before the last kill that ended one of its tasks. */
  sinceKill: number;
}

export interface Occupancy {
  name: string;
  /** The most tasks that ran at once. */
  most: number;
  empty: readonly Empty[];
  /** The part of the places that were in use, on average. */
  inUse: number;
}

interface Event {
  at: number;
  change: 1 | -1;
  killed: boolean;
}

/** `killed`: when each process was killed, by process id. */
export function occupancies(
  history: History,
  killed: ReadonlyMap<number, number>,
  watched: Watched,
): Occupancy[] {
  const events = eventsOf(history, killed);
  return watched.names.map((name) => occupancyOf(name, events.get(name) ?? [], watched));
}

function eventsOf({ entries, tasks }: History, killed: ReadonlyMap<number, number>): Map<string, Event[]> {
  const nameOf = new Map(tasks.map(({ id, requestId }) => [id, requestId ?? ""]));
  const ends = new Map(entries.filter(({ what }) => what === "end").map((entry) => [key(entry), entry.at]));
  const events = new Map<string, Event[]>();
  for (const entry of entries) {
    if (entry.what !== "start") continue;
    const ended = ends.get(key(entry));
    const to = ended ?? killed.get(entry.pid) ?? Number.POSITIVE_INFINITY;
    // It was killed just as it began.
    if (to <= entry.at) continue;
    const name = nameOf.get(entry.task ?? 0) ?? "";
    const all = events.get(name) ?? [];
    all.push({ at: entry.at, change: 1, killed: false }, { at: to, change: -1, killed: ended === undefined });
    events.set(name, all);
  }
  // In the same millisecond the end was first: its place is free for the start.
  for (const all of events.values()) all.sort((a, b) => a.at - b.at || a.change - b.change);
  return events;
}

function occupancyOf(name: string, events: readonly Event[], { from, until, most }: Watched): Occupancy {
  const empty: Empty[] = [];
  let [running, highest, used, last] = [0, 0, 0, from];
  let [since, sinceKill] = [from, from];
  const reach = (at: number) => {
    const [begin, end] = [Math.max(last, from), Math.min(at, until)];
    if (end > begin) used += running * (end - begin);
    last = Math.max(last, at);
  };
  const fill = (at: number) => {
    const end = Math.min(at, until);
    if (end > since) empty.push({ whole: end - since, sinceKill: end - Math.max(since, sinceKill) });
  };
  for (const { at, change, killed } of events) {
    reach(at);
    if (running >= most && change < 0) since = Math.max(at, from);
    if (killed) sinceKill = Math.max(at, from);
    running += change;
    highest = Math.max(highest, running);
    if (running === most && change > 0) fill(at);
  }
  reach(until);
  if (running < most) fill(until);
  return { name, most: highest, empty, inUse: used / (most * (until - from)) };
}

/** The most running rows of a limit, by the audit: in the order of the claims and of what ended them. */
export function mostRows({ moves, tasks }: History): number {
  const nameOf = new Map(tasks.map(({ id, requestId }) => [id, requestId ?? ""]));
  const running = new Map<string, number>();
  let most = 0;
  for (const { task, wasStatus, status } of moves) {
    const change = Number(status === "running") - Number(wasStatus === "running");
    const name = nameOf.get(task) ?? "";
    running.set(name, (running.get(name) ?? 0) + change);
    most = Math.max(most, running.get(name) ?? 0);
  }
  return most;
}
