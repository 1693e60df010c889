/**
 * Invariant: when the file is deleted, renamed or replaced under its queues, nothing more is claimed or acknowledged on
 * it: enqueues are refused and workers tell of it, in words that say what to do, `dbq worker` ends with a failure, and
 * nobody touches what is at the path now, not even by closing.
 */
import { replaced } from "./scenarios/replaced.ts";
import { proves } from "./told.ts";

proves(replaced);
