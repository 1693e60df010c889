/**
 * Invariant: other programs may read, lock, copy and rebuild the file, for longer than a lease too. No worker exits or
 * is rescued, no task is charged, no caller gets a "busy" error, and the write-ahead log shrinks again.
 */
import { foreign } from "./scenarios/foreign.ts";
import { proves } from "./told.ts";

proves(foreign);
