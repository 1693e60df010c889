/**
 * Invariant: a killed worker whose tasks run in processes loses none of them, and its processes end with it: no task runs
 * twice at once.
 */
import { proves } from "./scenario-test.ts";
import { children } from "./scenarios/children.ts";

proves(children);
