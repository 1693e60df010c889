/**
 * Invariant: where the death of a worker cannot be seen, as on another host, what it ran is free within its lease and a
 * second; and not before its lease is over, for till then it may live.
 */
import { leases } from "./scenarios/lease.ts";
import { proves } from "./told.ts";

proves(leases);
