/** `npm run demo -- --mess`: makes the mess, opens the dashboard, and says at the end what was repaired. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openQueue, type Queue, withoutPassword } from "../../src/index.ts";
import { type Command, checkDatabase, UsageError } from "../command.ts";
import { openDashboard } from "../dashboard.ts";
import { display } from "../progress.ts";
import { fullSize, keepComing, type Mess, smallSize, stepsOf, until } from "./build.ts";
import { problems, shownIn } from "./problems.ts";
import { MessProcesses } from "./processes.ts";
import { openSql } from "./sql.ts";

/** Milliseconds until all problems show; statistics are written every 10 s. */
const longestWait = 30_000;

export async function mess(command: Command, stop: AbortSignal): Promise<void> {
  if (command.db !== undefined) await checkDatabase(command.db);
  const folder = command.db === undefined ? await mkdtemp(join(tmpdir(), "dbq-mess-")) : undefined;
  const database = command.db ?? join(folder ?? "", "mess.db");
  try {
    await using queue = await openQueue(database);
    await checkEmpty(queue);
    await inMess(queue, database, command, stop);
  } finally {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }
}

async function inMess(queue: Queue, database: string, command: Command, stop: AbortSignal): Promise<void> {
  const sql = await openSql(database);
  const processes = new MessProcesses(database);
  const size = command.small ? smallSize : fullSize;
  const ended = new AbortController();
  const signal = AbortSignal.any([stop, ended.signal]);
  const made: Mess = { queue, sql, processes, size, signal };
  const shown = await openDashboard(queue);
  try {
    await build(made);
    const coming = keepComing(made);
    invite(shown.url, command.db === undefined ? database : withoutPassword(database), command.answers);
    if (!stop.aborted) await Promise.race([once(stop, "abort"), coming]);
    ended.abort();
    await coming;
    await conclude(queue);
  } finally {
    ended.abort();
    await shown.close();
    await processes.stop();
    await sql.close();
  }
}

async function checkEmpty(queue: Queue): Promise<void> {
  const [task] = await queue.listTasks({ limit: 1 });
  if (task)
    throw new UsageError(
      "--db: this database has tasks: name an empty one, since the mess would be among them",
    );
}

async function build(made: Mess): Promise<void> {
  const steps = stepsOf(made.size);
  const weights = steps.map(({ weight }) => weight);
  const shown = display(
    weights.reduce((sum, weight) => sum + weight, 2),
    "",
  );
  try {
    for (const [n, { what, run }] of steps.entries()) {
      made.signal.throwIfAborted();
      shown.show(
        weights.slice(0, n).reduce((sum, weight) => sum + weight, 0),
        what,
      );
      await run(made);
    }
    shown.show(
      weights.reduce((sum, weight) => sum + weight, 0),
      "until all of it shows",
    );
    await untilShown(made);
    shown.show(
      weights.reduce((sum, weight) => sum + weight, 2),
      "the mess is made",
    );
  } finally {
    shown.close();
  }
}

async function untilShown({ queue, signal }: Mess): Promise<void> {
  const end = performance.now() + longestWait;
  let there: typeof problems = [];
  await until(signal, async () => {
    there = shownIn(await queue.listCauses());
    return there.length === problems.length || performance.now() > end;
  });
  const missing = problems.filter((problem) => !there.includes(problem)).map(({ what }) => what);
  if (missing.length > 0) console.error(`demo: some problems do not show: ${missing.join("; ")}`);
}

function invite(url: string, database: string, answers: boolean): void {
  console.error(`
A shop has a bad day: ten things are wrong with its queue.

  dashboard  ${url}
  database   ${database}

Find what is wrong, and repair it: start from the first page. Or look from a terminal in this folder:

  export DBQ_URL='${database}'
  npx tsx src/entries/cli/main.ts causes      (an installed dbq: dbq causes, dbq failures, dbq doctor)

docs/operating.md says what each of them means. Ctrl-C ends the demo, and says which ones you have repaired.`);
  if (answers) console.error(`\nThe answers:\n\n${list()}`);
}

const list = (
  mark: (problem: (typeof problems)[number], n: number) => string = (_, n) => `${n + 1}.`,
): string =>
  problems
    .map(
      (problem, n) =>
        `${mark(problem, n).padStart(10)} ${problem.what}\n${" ".repeat(11)}→ ${problem.repair}`,
    )
    .join("\n");

async function conclude(queue: Queue): Promise<void> {
  const there = shownIn(await queue.listCauses());
  const repaired = problems.length - there.length;
  console.log(
    `\n${repaired} of ${problems.length} are repaired:\n\n${list((problem) => (there.includes(problem) ? "still" : "repaired"))}`,
  );
}
