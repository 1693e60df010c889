/**
 * Invariant: what a killed worker ran starts in another process within a second where its death can be seen, however many
 * tasks are pending: it comes before them.
 */

import { recovery } from "./scenarios/recovery.ts";
import { proves } from "./told.ts";

proves(recovery);
