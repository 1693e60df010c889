/**
 * Invariant: whichever process is killed at whichever moment, each acknowledged task ends, no generation of a task
 * starts twice, at most one outcome of it is accepted, and each crash is recorded and charged once.
 */

import { proves } from "./scenario-test.ts";
import { kills } from "./scenarios/kills.ts";

proves(kills);
