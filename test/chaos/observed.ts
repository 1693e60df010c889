/** What an observer process has seen. */
import type { EventLog } from "../fixtures/event-log.ts";
import type { Look, Seen } from "../fixtures/observer.ts";

/** For each look of an observer that has ended. @throws Error when there is none */
export function seenBy(looks: readonly Look[], log: EventLog): Seen[] {
  const [observed] = log.entries("observed").slice(-1);
  const seen = (observed?.note ?? []) as Seen[];
  if (seen.length !== looks.length) throw new Error("the observer has not said what it has seen");
  return seen;
}
