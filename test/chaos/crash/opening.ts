/** Opening a queue, with all that this makes of a file, and closing it. */
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { openQueue } from "../../../src/index.ts";
import { chore } from "../../fixtures/tasks.ts";
import { openFile } from "../place/sqlite.ts";
import { furnish } from "./furnished.ts";
import { nothing, type Operation, onQueue } from "./operation.ts";

async function opens(actor: { arm(): void; open(): Promise<unknown> }): Promise<void> {
  actor.arm();
  await actor.open();
}

export const opening: readonly Operation[] = [
  // The tables, and then the journal.
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

  { name: "open a queue's file", commits: 0, act: opens },

  {
    name: "open beside an app's connection",
    commits: 0,
    async act(actor) {
      actor.arm();
      await openQueue(drizzle(new Database(actor.database)));
    },
  },

  onQueue("close", 0, async (queue, actor) => {
    actor.acknowledged(await queue.enqueueTask(chore, 0, "return"));
    actor.arm();
    await queue.close();
  }),

  onQueue("close with an enqueue under way", 1, async (queue, actor) => {
    actor.arm();
    const enqueued = queue.enqueueTask(chore, 0, "return");
    const closed = queue.close();
    actor.acknowledged(await enqueued);
    await closed;
  }),
];
