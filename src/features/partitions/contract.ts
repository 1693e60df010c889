/** What a database does for finished tasks in tables by day. */
import type { Retention } from "../../store.ts";

/** Finished tasks in tables of their own, one for each status and day. */
export interface PartitionStore {
  /**
   * Moves tasks that finished more than `rest` milliseconds ago to the partitions of their days, `limit` of each status at most, and
   * returns how many it found: fewer than `limit` means that for now there are no more. Tasks of statuses that are kept for less
   * than a day or more than 400 days stay; all do while a foreign key refers to the table of tasks.
   * @throws DatabaseError where this user may make no tables
   */
  move(retention: Retention, limit: number, rest: number): Promise<number>;

  /**
   * Drops the partitions whose tasks are all older than their retention, with the attempts and log lines of these tasks. Returns
   * how many. One that is being read stays for the next call.
   */
  drop(retention: Retention): Promise<number>;
}
