/** Outcomes that SQLite refuses for good. */
import { join } from "node:path";
import Database from "better-sqlite3";
import { temporaryFolder } from "../support/queue.ts";
import { isBad, type Database as Made, refusedCases } from "./refused-cases.ts";

const onFile = async (): Promise<Made> => {
  const url = join(temporaryFolder(), "dbq.db");
  const open = () => new Database(url, { timeout: 10_000 });
  return {
    url,
    raw: async (text) => {
      const raw = open();
      raw.exec(text);
      raw.close();
    },
  };
};

const raises = (act: string, when: string, table = "dbq_tasks", event = "update") =>
  `create trigger no before ${event} on ${table} when ${when} begin select ${act}; end`;

refusedCases({
  name: "SQLite",
  make: onFile,
  synchronous: true,
  refusals: [
    {
      name: "a trigger",
      sql: raises("raise(abort, 'not on my watch')", isBad),
      says: /not on my watch \(SQLITE_CONSTRAINT_TRIGGER\)$/,
    },
    {
      name: "a trigger that discards the change",
      sql: raises("raise(ignore)", isBad),
      says: /discards the change/,
    },
    {
      name: "a unique index of the app's",
      sql: "create unique index one_bad on dbq_tasks (case when result like '%bad%' then 1 end); insert into dbq_tasks (func, args, status, result) values ('f', '[]', 'completed', '\"bad\"')",
      says: /UNIQUE constraint failed/,
    },
  ],
  trigger: (table, event, when) => raises("raise(abort, 'the row says no')", when, table, event),
  drop: () => "drop trigger no",
});
