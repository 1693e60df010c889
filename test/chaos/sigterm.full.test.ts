/**
 * Invariant: a worker that is asked to stop at any instant exits with success within its grace and a second. It hands
 * back unfinished tasks, which are claimed elsewhere within a second; no attempt is charged and nothing is lost.
 */

import { proves } from "./scenario-test.ts";
import { sigterm } from "./scenarios/sigterm.ts";

proves(sigterm);
