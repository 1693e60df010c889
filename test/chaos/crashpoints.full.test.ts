/**
 * Invariant: whichever statement a process is killed before or after, its operation is done or not begun, everything
 * that it acknowledged is kept, and the queue heals: all tasks end, with one charge for each killed attempt.
 */
import { crashpoints } from "./scenarios/crashpoints.ts";
import { proves } from "./told.ts";

proves(crashpoints);
