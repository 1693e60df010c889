/**
 * Invariant: the store on MySQL and MariaDB is the queue that its interface describes, whichever way its claims are kept
 * apart. What is called, steps of the server's clock and statements that fail, for good or for a moment, are drawn as for
 * SQLite.
 */
import { describe } from "vitest";
import { amount } from "../support/amount.ts";
import { mysqlServer } from "../support/mysql.ts";
import { isMissing } from "../support/server.ts";
import { agreement } from "./agreement.ts";
import { openRealMysql } from "./real-mysql.ts";

const server = await mysqlServer();

describe.skipIf(isMissing(server)).each(["skip-locked", "optimistic"] as const)("%s", (strategy) => {
  const open = () => openRealMysql(strategy);
  agreement(
    `model of the store on MySQL, ${strategy}`,
    open,
    ["throws", "commit", "passes"],
    amount(8, 8, 120),
  );
});
