/**
 * Invariant: a task that kills its worker is started once and once more for each of its retries, and then fails with
 * the reason. The other tasks complete, and only those that ran in a killed process are charged for it.
 */

import { proves } from "./scenario-test.ts";
import { poison } from "./scenarios/poison.ts";

proves(poison);
