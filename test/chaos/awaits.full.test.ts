/**
 * Invariant: however many tasks one process awaits, each await settles as its task ends or is purged, or by its own
 * timeout or signal. The process queries the database at most four times a second, however often other processes
 * commit.
 */

import { proves } from "./scenario-test.ts";
import { awaits } from "./scenarios/awaits.ts";

proves(awaits);
