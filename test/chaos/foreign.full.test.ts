/**
 * Invariant: other programs may read, lock, copy and rebuild the file, for longer than a lease too. No worker ends or is
 * taken for dead, no task is charged, nobody is told that the database is busy, and the write-ahead log is cut back after.
 */
import { foreign } from "./scenarios/foreign.ts";
import { proves } from "./told.ts";

proves(foreign);
