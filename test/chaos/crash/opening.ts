/** The operations that open a queue, with all that this creates in a file. */
import Database from "better-sqlite3";
import { openFile } from "../backends/sqlite.ts";
import { nothing, type Operation } from "./operation.ts";
import { furnish } from "./populated.ts";
import { opens } from "./reopening.ts";

export const opening: readonly Operation[] = [
  // One transaction for the tables, one for the migrations' journal.
  { name: "open a new file", commits: 2, prepare: nothing, act: opens },

  {
    name: "open a file of an app, without tables of ours",
    commits: 2,
    async prepare(files) {
      await nothing(files);
      const app = new Database(files.database);
      app.exec(
        "create table users (id integer primary key, name text); insert into users (name) values ('a')",
      );
      app.close();
    },
    act: opens,
  },

  {
    name: "open a file that has a rollback journal",
    commits: 1,
    async prepare(files) {
      await furnish(files);
      using raw = openFile(files.database);
      raw.client.pragma("journal_mode = delete");
    },
    act: opens,
  },
];
