/**
 * Invariant: whichever statement a process is killed before or after, its operation is done or not begun, everything
 * that it acknowledged is kept, and the queue heals: all tasks end, with one charge for each killed attempt.
 */

import { proves } from "./scenario-test.ts";
import { crashpoints } from "./scenarios/crashpoints.ts";

proves(crashpoints);
