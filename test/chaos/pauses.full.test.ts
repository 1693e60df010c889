/**
 * Invariant: a worker that was paused beyond its lease has lost its tasks. No stale outcome and no stale heartbeat of it is
 * accepted, its handlers hear by their signals within a heartbeat of waking, and it goes on with new tasks under a new row.
 */
import { pauses } from "./scenarios/pauses.ts";
import { proves } from "./told.ts";

proves(pauses);
