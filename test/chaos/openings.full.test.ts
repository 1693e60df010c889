/**
 * Invariant: however many processes open a new database at the same moment, each succeeds, the tables are created once
 * and as by a single process, and every task that is then enqueued is there.
 */

import { proves } from "./scenario-test.ts";
import { openings } from "./scenarios/openings.ts";

proves(openings);
