/**
 * Invariant: a value that travels through a queue and a worker on a server, as an argument, a keyword argument, meta, a
 * result or an error, comes back equal for every reader, or is refused before anything is written, with a path that
 * leads to it. None changes silently. A failure prints its seed and the smallest value fixtures that show it.
 */
import { describe, test } from "vitest";
import { amount } from "../support/amount.ts";
import { databases } from "./databases.ts";
import { fidelity } from "./fidelity.ts";

const { postgres, mysql } = databases;
/** Counted in hundreds. */
const servers = [
  {
    name: postgres.name,
    database: postgres,
    values: 100 * amount(5, 5, 100),
    missing: await postgres.missing(),
  },
  { name: mysql.name, database: mysql, values: 100 * amount(5, 5, 80), missing: await mysql.missing() },
];

describe.each(servers)("on $name", ({ database, values, missing }) => {
  test.skipIf(missing)(
    `${values} generated values come back equal, or are refused before any write`,
    { timeout: 300_000 },
    () => fidelity(database, values),
  );
});
