/**
 * Invariant: a worker that was paused for longer than its lease has lost its tasks. None of its stale outcomes and
 * heartbeats is accepted, its handlers get their abort signals within a heartbeat of waking, and it continues with new
 * tasks under a new row.
 */

import { proves } from "./scenario-test.ts";
import { pauses } from "./scenarios/pauses.ts";

proves(pauses);
