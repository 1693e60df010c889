/**
 * Invariant: a worker that is told to stop, at whichever instant, ends with success within its grace and a second. What it
 * has not finished is handed back and claimed elsewhere within a second; no attempt is charged, and nothing is lost.
 */
import { terms } from "./scenarios/terms.ts";
import { proves } from "./told.ts";

proves(terms);
