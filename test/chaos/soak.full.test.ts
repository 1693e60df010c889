/**
 * Invariant: at a steady rate each task is done once, and nothing grows with time: not the memory of any process, not the
 * write-ahead log, not the file, since what has finished is pruned.
 */
import { soak } from "./scenarios/soak.ts";
import { proves } from "./told.ts";

proves(soak);
