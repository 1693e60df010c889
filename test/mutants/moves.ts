/** Faults of a move to another database: what is left behind, and two databases that take tasks, or none. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const transfer = (file: string) => (test: string) => ({
  file: `test/features/transfer/${file}.full.test.ts`,
  test,
});
const foreignWrites = transfer("foreign-writes");
const takenOver = transfer("taken-over");
const ofCommits = (test: string) =>
  takenOver(`freezing on MySQL, where DDL ends the transaction that read the state > ${test}`);

const deleted =
  "transfer > a frozen source refuses to delete tasks once it is being closed or has been moved";

export const moveFaults: readonly Mutant[] = [
  // ---- a move that stood still ---------------------------------------------------------------
  {
    name: "overtaken-move-seals-and-opens",
    why: "A move that stood still opens the old database after its tasks have gone: what it takes from then on is lost.",
    in: "TransferOperations.#fenced",
    find: "if ((yield* rows(this.#s.lockOwn, { run })).length === 0) return false;",
    replace: "",
    caughtBy: takenOver(
      "a move on 'SQLite' > an aborted run does not unfreeze a database that another run has moved",
    ),
  },
  {
    name: "overtaken-move-goes-on-without-a-seal",
    why: "A second move is refused because the new database has tasks, though they are those of the first move.",
    in: "Move.#prepare",
    find: "await asOwner(this.#to.freeze(this.#run));",
    replace: "await this.#to.freeze(this.#run);",
    caughtBy: takenOver(
      "a move on 'SQLite' > a late run does not freeze a database that another move has completed",
    ),
  },
  {
    name: "mysql-seal-without-a-look-at-the-mark",
    why: "A trigger that a move makes too late closes the new database for good, with all apps and workers on it.",
    in: "isFrozen",
    find: `"state in ('preparing', 'filling', 'closing', 'moved') and door = 0"`,
    replace: '"door = 0"',
    caughtBy: ofCommits("a freeze that takes effect after the next move has completed refuses no write"),
  },
  {
    name: "mysql-seals-share-their-triggers",
    why: "A move that stood still drops the triggers of the next one: its old database takes tasks after they have gone.",
    in: "mysqlMoving.freeze",
    find: '`_${run.replaceAll("-", "")}`',
    replace: "",
    caughtBy: ofCommits("an unfreeze leaves the triggers of the next run in place"),
  },
  {
    name: "mysql-seal-reads-an-old-mark",
    why: "A transaction that began before the source was frozen writes a task after the last batch was copied.",
    in: "refuses",
    find: "` lock in share mode;`",
    replace: "`;`",
    caughtBy: ofCommits("a transaction that began before the freeze is refused, too"),
  },
  {
    name: "failed-reopening-is-passed-over",
    why: "A stopped move reports that nothing has changed, while the old database refuses every task.",
    in: "Move.#reopen",
    find: "throw new DatabaseError($$$args);",
    replace: "void new DatabaseError($$$args);",
    caughtBy: foreignWrites("an aborted move reports that it could not unfreeze the old database"),
  },

  // ---- what others do meanwhile --------------------------------------------------------------
  {
    name: "sqlite-deletes-while-closing",
    why: "A purge that was acknowledged in the last moments of a move comes back in the new database.",
    in: "sqliteMoving.freeze",
    find: '[refuses(refusal, "delete", "dbq_tasks")]',
    replace: "[]",
    caughtBy: foreignWrites(
      "a purge during the last changes is refused, so an acknowledged purge is never undone",
    ),
  },
  {
    name: "postgres-deletes-while-closing",
    why: "A purge that was acknowledged in the last moments of a move comes back in the new database.",
    in: "refuse",
    find: "`tg_op = 'DELETE' or `",
    replace: "`tg_op <> 'DELETE' and `",
    caughtBy: { file: "test/conformance/postgres-features.full.test.ts", test: `'Postgres' > ${deleted}` },
  },
  {
    name: "mysql-deletes-while-closing",
    why: "A purge that was acknowledged in the last moments of a move comes back in the new database.",
    in: "mysqlMoving.freeze",
    find: 'missing("delete", "delete", "dbq_tasks", old)',
    replace: "[]",
    caughtBy: { file: "test/conformance/mysql.full.test.ts", test: `'MySQL' > ${deleted}` },
  },
  {
    name: "move-looks-at-generations-alone",
    why: "A priority or a time that was set by plain SQL during the copy is the old one in the new database.",
    in: "versions.dbq_tasks",
    find: "[$$$all]",
    replace: '["generation_id", "status", "updated_at"]',
    caughtBy: foreignWrites("a change by plain SQL is copied, even without a new generation or time"),
  },
  {
    name: "move-overlooks-lengths",
    why: "Arguments that were set by plain SQL during the copy are the old ones in the new database.",
    in: "rowVersions.version",
    find: "[Number(bytes), $$$rest]",
    replace: "[$$$rest]",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > transfer > a row's version changes when SQL changes any column that the move carries over",
    },
  },

  // ---- what is left behind -------------------------------------------------------------------
  {
    name: "id-beyond-all-numbers-is-left-behind",
    why: "A move names another row than the one that it cannot carry over, or none.",
    in: "TransferOperations.rowVersions",
    find: "yield* this.#refuseIds(table)",
    replace: "yield* this.#each([])",
    caughtBy: foreignWrites("a task whose id is beyond 2^53 ends the move with an error that names it"),
  },
  {
    name: "move-counts-nothing-at-its-end",
    why: "A move says that it succeeded, and has left a task behind.",
    in: "Move.#compareSizes",
    find: "if (old === now) continue;",
    replace: "if (old >= now) continue;",
    caughtBy: foreignWrites("a task whose id is beyond 2^53 ends the move with an error that names it"),
  },

  // ---- what those are told who are refused ---------------------------------------------------
  {
    name: "sqlite-refusal-is-an-expression",
    why: "After a move, no SQLite before 3.47 opens the file, not even for the app's own tables.",
    in: "refuses",
    find: "`${quoted(refusal)}`",
    replace: "`(select refusal from dbq_move)`",
    caughtBy: foreignWrites(
      "any SQLite version can read a frozen file, and its error is that of the latest run",
    ),
  },
  {
    name: "mysql-refusal-in-the-database-s-characters",
    why: "On a database with another character set, the error speaks of a wrong text and not of the database that has the tasks now.",
    in: "refuses",
    find: "`varchar(128) character set utf8mb4`",
    replace: "`varchar(128)`",
    caughtBy: foreignWrites("on MySQL, a frozen database gives its error in any character set"),
  },
  {
    name: "postgres-refusal-with-the-writer-s-rights",
    why: "The error names a table that the app may not read, and not the database that has the tasks now.",
    in: "refuse",
    find: "` security definer`",
    replace: "",
    caughtBy: foreignWrites(
      "on Postgres, a role without rights to dbq_move gets the error and cannot forge the state",
    ),
  },
  {
    name: "move-leaves-agents-behind",
    why: "After a move every agent is refused, and every token has to be made and carried out again.",
    in: "Move.#open",
    find: "await this.#copyAgents();",
    replace: "",
    caughtBy: transfer("rows")(
      "from 'SQLite to SQLite' > agents keep their tokens, revoked ones stay revoked, and the origin is the same",
    ),
  },
  {
    name: "move-leaves-schedules-behind",
    why: "After a move no schedule makes a task any more.",
    in: "Move.#open",
    find: "await this.#copySchedules();",
    replace: "",
    caughtBy: transfer("rows")(
      "schedules from 'SQLite to SQLite' > go on where they were, and the old database fires none of them",
    ),
  },
  {
    name: "move-leaves-the-origin-behind",
    why: "After a move a drain sends the tasks in hand with other ids, and the broker takes them twice.",
    in: "Move.#open",
    find: "await this.#copyOrigin();",
    replace: "",
    caughtBy: transfer("rows")(
      "from 'SQLite to SQLite' > agents keep their tokens, revoked ones stay revoked, and the origin is the same",
    ),
  },
];
