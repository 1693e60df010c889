/** Faults of workflows, groups and chains. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const onSqlite = (part: "steps" | "waits" | "children" | "groups and chains", test: string) => ({
  file: "test/features/workflows/sqlite.test.ts",
  test: `${part} on SQLite > ${test}`,
});

const storedOnce = "a step that is stored does not run again; what is outside of steps does";
const knowEachOther = "a child runs once, and its result is the parent's; both know each other";

export const workflowFaults: readonly Mutant[] = [
  {
    name: "stored-steps-run-again",
    why: "A charge is made again by each retry.",
    in: "WorkflowRun.#load",
    find: "this.#steps.set(step.name, step);",
    replace: "",
    caughtBy: onSqlite("steps", storedOnce),
  },
  {
    name: "repeated-step-shares-its-name",
    why: "The second step of a loop gets the value of the first one, and does not run.",
    in: "WorkflowRun.nameOf",
    find: "this.#names.has(name)",
    replace: "false",
    caughtBy: onSqlite("steps", storedOnce),
  },
  {
    name: "lost-attempt-stores-its-step",
    why: "An attempt that was declared dead stores a step beside the one that replaced it.",
    in: "stepStatements",
    find: '`\n      select root_id from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")} ${d.locked}`',
    replace:
      '`\n      select root_id from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} ${still("running")} ${d.locked}`',
    caughtBy: onSqlite("steps", "an attempt that has lost its task stores nothing"),
  },
  {
    name: "caught-error-is-forgotten",
    why: "A step that failed and was caught runs again after the function has gone the other way.",
    in: "WorkflowRun.#unstoredFailures",
    find: "steps.push(failure.step);",
    replace: "",
    caughtBy: onSqlite(
      "steps",
      "a step that fails runs again with the next attempt, unless the function has caught its error and gone on",
    ),
  },
  {
    name: "uncaught-error-stays",
    why: "A retry meets the stored error of its first attempt for ever.",
    in: "WorkflowRun.#storeFailures",
    find: "if (uncaught.length > 0) await this.#store.forget(record, uncaught);",
    replace: "void uncaught;",
    caughtBy: onSqlite(
      "steps",
      "an error that is stored since another step has gone on, but was not caught, does not stay",
    ),
  },
  {
    name: "from-step-drops-only-that-step",
    why: "The steps behind it keep values that follow from the dropped one.",
    in: "stepStatements",
    find: "`delete from dbq_steps where task_id = ${p.taskId} and seq >= ${d.integer(p.seq)}`",
    replace: "`delete from dbq_steps where task_id = ${p.taskId} and seq = ${d.integer(p.seq)}`",
    caughtBy: onSqlite(
      "steps",
      "retryTask keeps the steps; with fromStep, that one and the later ones run again",
    ),
  },
  {
    name: "purge-leaves-steps",
    why: "The steps of deleted tasks fill the database.",
    in: "operationsOf",
    find: "maintenance.onRemove = (ids) => workflows.removeOf(ids)",
    replace: "maintenance.onRemove = undefined",
    caughtBy: onSqlite("steps", "a purge deletes the steps and waits of its tasks"),
  },
  {
    name: "log-is-lost-at-a-wait",
    why: "The lines before a wait come when the task does not run any more, and are dropped.",
    in: "WorkflowRun.#ask",
    find: "if (park) await this.port.logWritten();",
    replace: "",
    caughtBy: onSqlite("steps", "what a task has logged before it waits is kept"),
  },
  {
    name: "sleep-has-no-end",
    why: "Nobody ends the waits whose time is over.",
    in: "WaitUpkeep.run",
    find: "let ended = await this.#store.endDue(batch);",
    replace: "let ended = 0;",
    caughtBy: onSqlite("waits", "a task sleeps without a slot, of 1, and goes on when its time has come"),
  },
  {
    name: "second-event-replaces-the-first",
    why: "Two tasks that wait for one event get different payloads.",
    in: "eventStatements",
    find: '`\n      update dbq_events set payload = ${d.json(p.payload)}, emitted_at = ${d.now(p)}\n      where ${d.same("name", p.name)} and emitted_at is null`',
    replace:
      '`\n      update dbq_events set payload = ${d.json(p.payload)}, emitted_at = ${d.now(p)}\n      where ${d.same("name", p.name)}`',
    caughtBy: onSqlite(
      "waits",
      "an event is told to those that wait and to those that will; the first of a name counts",
    ),
  },
  {
    name: "event-of-before-is-not-seen",
    why: "A task waits for ever for an event that came first.",
    in: "WorkflowOperations.#waitedFor",
    find: "if (Number(event?.[1]) !== 1) return undefined;",
    replace: "if (event) return undefined;",
    caughtBy: onSqlite("waits", "a wait for an event that came first is over at once"),
  },
  {
    name: "repair-sees-no-deleted-child",
    why: "A parent waits for ever for a child that was deleted.",
    in: "WorkflowOperations.repair",
    find: '...gone.map((id) => [id, { id, kind: "failed" }] as const),',
    replace: "",
    caughtBy: onSqlite("waits", "upkeep wakes what another program has let go by plain SQL"),
  },
  {
    name: "end-wakes-no-parent",
    why: "A parent that waits for its child is woken by upkeep, seconds late.",
    in: "operationsOf",
    find: "transitions.onEnd = (ended) => workflows.onEnd(ended)",
    replace: "transitions.onEnd = undefined",
    caughtBy: onSqlite("children", "levels of children share one slot"),
  },
  {
    name: "children-have-no-root",
    why: "Nobody finds all tasks of a tree by one column.",
    in: "WorkflowOperations.write",
    find: "({ ...child.task, parentId: task.id, rootId })",
    replace: "({ ...child.task, parentId: task.id, rootId: null })",
    caughtBy: onSqlite("children", knowEachOther),
  },
  {
    name: "all-waits-for-the-others-after-a-failure",
    why: "A failure is met only when the slowest child has ended.",
    in: "WorkflowOperations.#isOver",
    find: "(isAllOf(mode) || mode === groupCancels)",
    replace: "mode === groupCancels",
    caughtBy: onSqlite("children", "all rejects at the first failure, while the others go on"),
  },
  {
    name: "cancel-leaves-the-tree",
    why: "The children of a cancelled task run on.",
    in: "operationsOf",
    find: "tasks.onCancel = (record, error) => workflows.cancelTree(record, error)",
    replace: "tasks.onCancel = undefined",
    caughtBy: onSqlite("children", "a cancel takes the tree, and without tree only the task"),
  },
  {
    name: "group-ends-with-its-first-member",
    why: "`then` runs while members run.",
    in: "WorkflowOperations.#isOver",
    find: "(yield* rows(this.#s.others, { taskId: task.id, mode })).length === 0",
    replace: "true",
    caughtBy: onSqlite("groups and chains", "then runs once when all members have ended, and reads how"),
  },
  {
    name: "failed-group-cancels-no-member",
    why: "Members of a group that has failed still start.",
    in: "WorkflowOperations.#endGroup",
    find: "yield* this.#cancel(unstarted, error);",
    replace: "",
    caughtBy: onSqlite("groups and chains", "the first failure cancels what has not started, or nothing"),
  },
  {
    name: "chain-passes-nothing-on",
    why: "A link of a chain gets no result of the one before.",
    in: "WorkflowOperations.#follow",
    find: 'mode === chained ? withArgument(task.args, end.result ?? "null") : task.args',
    replace: "task.args",
    caughtBy: onSqlite(
      "groups and chains",
      "a chain passes results on, in one transaction with the app's writes",
    ),
  },
  {
    name: "waiting-link-is-retried",
    why: "A retry by hand runs a link of a chain before the one that it follows.",
    in: "TaskOperations.retry",
    find: 'if (status === "running" || status === "pending" || status === "waiting") return "as it is";',
    replace: 'if (status === "running" || status === "pending") return "as it is";',
    caughtBy: onSqlite(
      "groups and chains",
      "a failure in a chain cancels the rest, and a cancel of the last one cancels all",
    ),
  },
  {
    name: "met-end-of-a-child-is-not-kept",
    why: "A workflow that sleeps for longer than tasks are kept fails when it goes on.",
    in: "WorkflowRun.#ask",
    find: "await this.#store.keepEnds(this.port.record, [...this.#met.values()]);",
    replace: "",
    caughtBy: onSqlite(
      "children",
      "the end of a child that a parent has met stays, also when the child is deleted",
    ),
  },
  {
    name: "unawaited-child-is-dropped",
    why: "A child that the function does not await starts or not, by the speed of the database.",
    in: "WorkflowRun.ending",
    find: "this.#starts.size > 0 && !this.#isOver",
    replace: "false",
    caughtBy: onSqlite("children", "a child that is not awaited starts all the same, before its parent ends"),
  },
  {
    name: "steps-may-be-nested",
    why: "The names of later steps depend on whether a step was stored.",
    in: "currentRun",
    find: "attempt.step !== undefined",
    replace: "false",
    caughtBy: onSqlite(
      "steps",
      "a step has no steps, waits or children of its own, and race needs a promise",
    ),
  },
  {
    name: "ended-task-is-said-to-wait",
    why: "A list of who waits for an event names tasks that were cancelled.",
    in: "waitStatements",
    find: "sql.raw(unfinished)",
    replace: 'sql.raw("1 = 1")',
    caughtBy: onSqlite("waits", "the tasks that wait for an event or a task are found by its name or id"),
  },
];
