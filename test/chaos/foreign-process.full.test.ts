/**
 * Invariant: other programs may read, lock, copy and rebuild the file, for longer than a lease too. No worker exits or
 * is rescued, no task is charged, no caller gets a "busy" error, and the write-ahead log shrinks again.
 */

import { proves } from "./scenario-test.ts";
import { foreignProcess } from "./scenarios/foreign-process.ts";

proves(foreignProcess);
