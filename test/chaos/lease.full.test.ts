/**
 * Invariant: where a worker's death cannot be observed, as on another host, its tasks are free within its lease and a
 * second, and not before its lease is over, since it may be alive until then.
 */

import { proves } from "./scenario-test.ts";
import { leases } from "./scenarios/lease.ts";

proves(leases);
