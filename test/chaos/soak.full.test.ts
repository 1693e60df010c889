/**
 * Invariant: at a steady rate each task is done once, and nothing grows with time: not the memory of any process, not
 * the write-ahead log, and not the file, since finished tasks are pruned.
 */

import { proves } from "./scenario-test.ts";
import { soak } from "./scenarios/soak.ts";

proves(soak);
