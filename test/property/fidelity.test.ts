/**
 * Invariant: a value that travels through a queue and a worker on a SQLite file, as an argument, a keyword argument,
 * meta, a result or an error, comes back equal for every reader, or is refused before anything is written, with a path
 * that leads to it. None changes silently. A failure prints its seed and the smallest value fixtures that show it.
 */
import { test } from "vitest";
import { amount } from "../support/amount.ts";
import { databases } from "./databases.ts";
import { fidelity } from "./fidelity.ts";

/** Counted in hundreds. */
const values = 100 * amount(10, 30, 1_000);

test(
  `${values} generated values come back equal, or are refused before any write`,
  {
    timeout: 300_000,
  },
  () => fidelity(databases.sqlite, values),
);
