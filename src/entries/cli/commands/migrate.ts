import type { Command } from "commander";
import { type CommonOptions, shown, withQueue } from "../database.ts";
import { json, line } from "../output.ts";

const examples = `
Examples:
  $ dbq migrate
  $ dbq migrate --db /var/lib/app/app.db
  $ dbq migrate --db postgres://owner@db.internal/app`;

export function addMigrate(program: Command): void {
  program
    .command("migrate")
    .summary("create or update the tables")
    .description("Create the database file and the tables where they are missing, and update the tables.")
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await migrate(self.optsWithGlobals<CommonOptions>()));
}

async function migrate(options: CommonOptions): Promise<void> {
  // Opening a queue migrates its tables.
  await withQueue(options, async () => undefined);
  const database = await shown(options.db);
  if (options.json) json({ database, upToDate: true });
  else line(`${database}: the tables are up to date`);
}
