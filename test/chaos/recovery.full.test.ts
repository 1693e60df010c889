/**
 * Invariant: the tasks of a killed worker start in another process within a second where its death can be observed.
 * They start before all pending tasks, however many there are.
 */

import { proves } from "./scenario-test.ts";
import { recovery } from "./scenarios/recovery.ts";

proves(recovery);
