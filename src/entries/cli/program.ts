/** The commands and their common options. The queue is loaded only when a command runs, so that `--help` stays fast. */
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
  0  success
  1  failure: no such task or database, a task that failed, a problem that
     doctor has found
  2  wrong usage; purge without --yes, which deletes nothing

Examples:
  $ dbq worker tasks.js --db app.db
  $ dbq enqueue resize '["a.png", 320]' --db app.db
  $ dbq list --status failed --json
  $ dbq stats --db postgres://app@db.internal/app

"dbq <command> --help" shows examples of a command. With DBQ_DEBUG=1 errors are
printed with their stacks.`;

/** @param asJson the caller prints errors as JSON; otherwise Commander prints them as text */
export function buildProgram(asJson: boolean): Command {
  const program = new Command("dbq")
    .description("Run, inspect and operate the tasks of a dbq queue.")
    .version(version(), "-V, --version", "print the version of dbq")
    .addOption(
      new Option("--db <target>", "the database: a path or URL").env("DBQ_URL").default("dbq.db", '"dbq.db"'),
    )
    .option(
      "--no-sessions",
      "for a pooler in transaction mode: keep no state on connections between transactions",
    )
    .option("--json", "print JSON: one value; worker and tail print one object a line")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput(asJson ? { writeErr: () => undefined } : { outputError: writeSafely })
    .exitOverride()
    .addHelpText("after", afterHelp);
  for (const add of [addWorker, addEnqueue, addList, addShow, addRetry, addCancel]) add(program);
  for (const add of [addPurge, addStats, addTail, addMigrate, addMove, addDoctor]) add(program);
  return program;
}

/** Commander quotes the user's input, and puts a suggestion on a second line. Prints one printable line. */
function writeSafely(text: string, write: (text: string) => void): void {
  write(`${printable(text.trimEnd().replace("\n(", " ("))}\n`);
}

function version(): string {
  const manifest: { version: string } = createRequire(import.meta.url)("dbq-ts/package.json");
  return manifest.version;
}
