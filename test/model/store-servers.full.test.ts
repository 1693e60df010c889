/**
 * Invariant: a store on a server is the queue that its interface describes, with either strategy that keeps claims
 * apart. Calls, steps of the server's clock, and statements that fail for good or for a moment are drawn as for SQLite.
 */
import { describe } from "vitest";
import { amount } from "../support/amount.ts";
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { isMissing } from "../support/server.ts";
import { agentAgreement } from "./agents.ts";
import { agreement } from "./agreement.ts";
import { drainAgreement } from "./drains.ts";
import { limiterAgreement } from "./limiter.ts";
import { openRealMysql } from "./real-mysql.ts";
import { openRealPostgres } from "./real-postgres.ts";
import { scheduleAgreement } from "./schedules.ts";

const servers = [
  { name: "Postgres", open: openRealPostgres, missing: isMissing(await postgresServer()) },
  { name: "MySQL", open: openRealMysql, missing: isMissing(await mysqlServer()) },
];

describe.each(servers)("on $name", ({ name, open, missing }) => {
  describe.skipIf(missing).each(["skip-locked", "optimistic"] as const)("%s", (strategy) => {
    agreement(
      `model of the store on ${name}, ${strategy}`,
      () => open(strategy),
      ["throws", "commit", "passes"],
      amount(8, 8, 120),
    );
  });
  describe.skipIf(missing)("schedules", () => {
    scheduleAgreement(
      `model of schedules on ${name}`,
      () => open("skip-locked"),
      ["throws", "commit", "passes"],
      amount(3, 3, 60),
    );
  });
  describe.skipIf(missing)("limits", () => {
    limiterAgreement(
      `model of limits on ${name}`,
      () => open("skip-locked"),
      ["throws", "commit", "passes"],
      amount(3, 3, 60),
    );
  });
  describe.skipIf(missing)("drains", () => {
    drainAgreement(
      `model of drains on ${name}`,
      () => open("skip-locked"),
      ["throws", "commit", "passes"],
      amount(3, 3, 40),
    );
  });
  describe.skipIf(missing)("agents", () => {
    agentAgreement(
      `model of agents on ${name}`,
      () => open("skip-locked"),
      ["throws", "commit", "passes"],
      amount(3, 3, 40),
    );
  });
});
