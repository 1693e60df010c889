/** Outcomes that MySQL or MariaDB refuses for good. */
import { describe, onTestFinished } from "vitest";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { isMissing } from "../support/server.ts";
import { type Database, isBad, refusedCases } from "./refused-cases.ts";

const make = async (): Promise<Database> => {
  const { url, client, drop } = await newDatabase();
  onTestFinished(drop);
  return { url, raw: (text) => client.query(text) };
};

const signals = (when: string, message: string, table = "dbq_tasks", event = "update") =>
  `create trigger no before ${event} on ${table} for each row
    if ${when} then signal sqlstate '45000' set message_text = '${message}'; end if`;

describe.skipIf(isMissing(await mysqlServer()))("on a server", () => {
  refusedCases({
    name: "MySQL or MariaDB",
    make,
    refusals: [
      { name: "a trigger", sql: signals(isBad, "not on my watch"), says: /not on my watch/ },
      {
        name: "a CHECK",
        sql: "alter table dbq_tasks add constraint no_bad check (result not like '%bad%')",
        says: /no_bad/,
      },
      {
        name: "a column without emoji",
        sql: "alter table dbq_tasks modify result longtext character set latin1",
        result: "Hi 🌊",
        says: /Incorrect string value/,
      },
      {
        name: "a packet that is too large",
        result: "x".repeat(17 * 2 ** 20),
        options: { maxPayload: 64 * 2 ** 20 },
        says: /max_allowed_packet is 16777216/,
      },
    ],
    trigger: (table, event, when) => signals(when, "the row says no", table, event),
    drop: () => "drop trigger no",
  });
});
