/**
 * Invariant: the tasks of a killed worker start in another process within a second where its death can be observed.
 * They start before all pending tasks, however many there are.
 */

import { recovery } from "./scenarios/recovery.ts";
import { proves } from "./told.ts";

proves(recovery);
