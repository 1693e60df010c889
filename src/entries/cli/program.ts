/** The commands and what they have in common. Nothing of the queue is loaded before a command runs: `--help` stays fast. */
import { createRequire } from "node:module";
import { Command, Option } from "commander";
import { addDoctor } from "./commands/doctor.ts";
import { addEnqueue } from "./commands/enqueue.ts";
import { addList } from "./commands/list.ts";
import { addMigrate } from "./commands/migrate.ts";
import { addMove } from "./commands/move.ts";
import { addCancel, addRetry } from "./commands/operate.ts";
import { addPurge } from "./commands/purge.ts";
import { addShow } from "./commands/show.ts";
import { addStats } from "./commands/stats.ts";
import { addTail } from "./commands/tail.ts";
import { addWorker } from "./commands/worker.ts";
import { printable } from "./text.ts";

const afterHelp = `
Exit codes:
  0  done
  1  it failed: no such task, a task that failed, no such database, something wrong (doctor)
  2  wrong usage; for purge: nothing was deleted, since --yes was missing

Examples:
  $ dbq worker tasks.js
  $ dbq enqueue resize '["a.png", 320]' --db app.db
  $ dbq list --status failed --json
  $ dbq stats --db postgres://app@db.internal/app

With DBQ_DEBUG=1 errors are printed with their stacks. "dbq <command> --help" has examples of each command.`;

/** @param asJson whether errors are told as JSON, by whoever runs the program, instead of as text here */
export function buildProgram(asJson: boolean): Command {
  const program = new Command("dbq")
    .description("Run and look after the tasks of a dbq queue.")
    .version(version(), "-V, --version", "print the version of dbq")
    .addOption(
      new Option("--db <target>", "the database: a path or URL").env("DBQ_URL").default("dbq.db", '"dbq.db"'),
    )
    .option(
      "--no-sessions",
      "for a pooler that gives one connection to many: keep nothing on it that outlives a transaction",
    )
    .option("--json", "print JSON: one value, or one object a line from worker and tail")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput(asJson ? { writeErr: () => undefined } : { outputError: writeSafely })
    .exitOverride()
    .addHelpText("after", afterHelp);
  for (const add of [addWorker, addEnqueue, addList, addShow, addRetry, addCancel]) add(program);
  for (const add of [addPurge, addStats, addTail, addMigrate, addMove, addDoctor]) add(program);
  return program;
}

/** On one line: Commander quotes what was typed, and puts a suggestion on a line of its own. */
function writeSafely(text: string, write: (text: string) => void): void {
  write(`${printable(text.trimEnd().replace("\n(", " ("))}\n`);
}

function version(): string {
  const manifest: { version: string } = createRequire(import.meta.url)("dbq-ts/package.json");
  return manifest.version;
}
