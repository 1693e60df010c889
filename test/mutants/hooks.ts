/** Faults of hooks that crashes owe. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const onSqlite = (test: string) => ({
  file: "test/features/hooks/sqlite.test.ts",
  test: `hooks that crashes owe on SQLite > ${test}`,
});
const single = (test: string) => ({ file: "test/features/hooks/sqlite.test.ts", test });

const whenItDies =
  "a function that ends its process: onFailure runs on the worker that rescues it, which emits failed";

export const hookFaults: readonly Mutant[] = [
  {
    name: "crash-owes-no-hook",
    why: "`onFailure` never runs for a task that kills its process.",
    in: "owedHooksOf",
    find: "maintenance.onCrash = (crashes) => hooks.owe(crashes)",
    replace: "maintenance.onCrash = undefined",
    caughtBy: onSqlite(whenItDies),
  },
  {
    name: "crash-emits-no-event",
    why: "A log of failed tasks leaves out those that killed their workers.",
    in: "Worker.#newMaintenance",
    find: "this.reportCrash(crash, this.#internals.options.clock)",
    replace: "void crash",
    caughtBy: onSqlite(whenItDies),
  },
  {
    name: "hook-of-a-dead-worker-stays-its-own",
    why: "A worker that is killed during onFailure takes the hook with it.",
    in: "owedHookStatements.isFree",
    find: "`(worker_id is null or worker_id = ${p.workerId}\n        or not exists (select 1 from dbq_workers where dbq_workers.id = dbq_owed_hooks.worker_id))`",
    replace: "`(worker_id is null or worker_id = ${p.workerId})`",
    caughtBy: single("a worker that is killed while it runs a hook: another one runs it again"),
  },
  {
    name: "hook-is-removed-by-who-lost-it",
    why: "A worker that was suspended deletes the hook that another one runs, and may die while it does.",
    in: "owedHookStatements.remove",
    find: "`delete from dbq_owed_hooks where id = ${p.id} and tries = ${p.tries}`",
    replace: "`delete from dbq_owed_hooks where id = ${p.id} and ${p.tries} > 0`",
    caughtBy: onSqlite(
      "two workers never run one hook at once, and what one took is another's when its row is gone",
    ),
  },
  {
    name: "hook-kills-all-workers",
    why: "An onFailure that ends its process ends each worker that is started, for ever.",
    in: "OwedHooks.#run",
    find: "hook.tries > mostTries",
    replace: "hook.tries < 0",
    caughtBy: single("a hook that ends its process is given up after three workers, and that is reported"),
  },
];
