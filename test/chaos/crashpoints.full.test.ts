/**
 * Invariant: whichever statement a process is killed before or after, its operation is whole or not begun, what it
 * acknowledged is there, and the queue heals: all comes to its end, with one charge for each attempt that was cut off.
 */
import { crashpoints } from "./scenarios/crashpoints.ts";
import { proves } from "./told.ts";

proves(crashpoints);
