/**
 * Invariant: however many processes open a new database at the same moment, each of them succeeds, the tables are made
 * once and are the same as if one had made them alone, and what each enqueues then is there.
 */
import { openings } from "./scenarios/openings.ts";
import { proves } from "./told.ts";

proves(openings);
