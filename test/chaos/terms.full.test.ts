/**
 * Invariant: a worker that is asked to stop at any instant exits with success within its grace and a second. It hands
 * back unfinished tasks, which are claimed elsewhere within a second; no attempt is charged and nothing is lost.
 */
import { terms } from "./scenarios/terms.ts";
import { proves } from "./told.ts";

proves(terms);
