/**
 * Invariant: a task that takes its worker with it is started once and for each of its retries, and then fails with the
 * reason. The other tasks are done; only those that ran in the very process that died are charged for it.
 */
import { poison } from "./scenarios/poison.ts";
import { proves } from "./told.ts";

proves(poison);
