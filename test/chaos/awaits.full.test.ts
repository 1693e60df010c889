/**
 * Invariant: however many tasks one process awaits, each await settles as its task ends, is purged, or by its own timeout
 * or signal, and the process asks the database four times a second at most, however often others commit.
 */
import { awaits } from "./scenarios/awaits.ts";
import { proves } from "./told.ts";

proves(awaits);
