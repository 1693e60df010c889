/** Faults of workflows, groups and chains. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const onSqlite = (part: "steps" | "waits" | "children" | "groups and chains", test: string) => ({
  file: "test/features/workflows/sqlite.test.ts",
  test: `${part} on SQLite > ${test}`,
});

const undoOnSqlite = (test: string) => ({
  file: "test/features/workflows/undo.test.ts",
  test: `undo on SQLite > ${test}`,
});

const amongMany = (test: string) => ({
  file: "test/features/workflows/many-children.test.ts",
  test: `many children on SQLite > ${test}`,
});

const inCommands = (test: string) => ({ file: "test/entries/cli/workflows.full.test.ts", test });

const inModel = {
  file: "test/model/workflows.test.ts",
  test: "each end, event and time wakes the tasks that wait for it, once, and no other one",
};

const undoneAtTheEnd = "a task that fails undoes its stored steps, the last one first, and ends then";
const undoneAfterCancel =
  "a saga that is cancelled while it waits is undone, in spite of a pause, and holds its key until then";
const undoneAfterStop =
  "a cancelled function stops before its steps are undone, and the step that it was in is undone, too";
const undoneAgain =
  "an undo that fails for good stops no other; retryTask undoes it again, and the task ends as it was to end";
const undoneTwice =
  "an undone step counts as not stored: a retry runs it again under another key, and undoes it again";
const nobodyInterferes = "nobody retries, changes, cancels or deletes a task that undoes its steps";

const storedOnce = "a step that is stored does not run again; what is outside of steps does";
const knowEachOther = "a child runs once, and its result is the parent's; both know each other";

export const workflowFaults: readonly Mutant[] = [
  {
    name: "stored-steps-run-again",
    why: "A charge is made again by each retry.",
    in: "WorkflowRun.load",
    find: '(step.undo === "done" ? this.#undone : this.steps).set(step.name, step);',
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
    in: "treeStatements",
    find: '`\n      select root_id from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")} ${d.locked}`',
    replace:
      '`\n      select root_id from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} ${still("running")} ${d.locked}`',
    caughtBy: onSqlite("steps", "an attempt that has lost its task stores nothing"),
  },
  {
    name: "single-step-is-not-fenced",
    why: "An attempt that was declared dead stores a step beside the one that replaced it.",
    in: "stepStatements",
    find: '`\n      insert into dbq_steps (task_id, name, seq, value, error, generation_id, started_at, ended_at, undo_state)\n      select id, ${p.name}, ${d.integer(p.seq)}, ${d.json(p.value)}, ${d.json(p.error)}, generation_id, ${d.time(d.integer(p.startedAt))}, ${d.now(p)}, ${p.undoState}\n      from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")} and root_id is not null ${d.locked}`',
    replace:
      "`\n      insert into dbq_steps (task_id, name, seq, value, error, generation_id, started_at, ended_at, undo_state)\n      select id, ${p.name}, ${d.integer(p.seq)}, ${d.json(p.value)}, ${d.json(p.error)}, generation_id, ${d.time(d.integer(p.startedAt))}, ${d.now(p)}, ${p.undoState}\n      from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} and root_id is not null ${d.locked}`",
    caughtBy: onSqlite("steps", "an attempt that has lost its task after a step stores no other one"),
  },
  {
    name: "single-step-does-not-wait",
    why: "A step is stored of a task that another transaction is about to end: nothing undoes it.",
    in: "stepStatements",
    find: '`\n      insert into dbq_steps (task_id, name, seq, value, error, generation_id, started_at, ended_at, undo_state)\n      select id, ${p.name}, ${d.integer(p.seq)}, ${d.json(p.value)}, ${d.json(p.error)}, generation_id, ${d.time(d.integer(p.startedAt))}, ${d.now(p)}, ${p.undoState}\n      from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")} and root_id is not null ${d.locked}`',
    replace:
      '`\n      insert into dbq_steps (task_id, name, seq, value, error, generation_id, started_at, ended_at, undo_state)\n      select id, ${p.name}, ${d.integer(p.seq)}, ${d.json(p.value)}, ${d.json(p.error)}, generation_id, ${d.time(d.integer(p.startedAt))}, ${d.now(p)}, ${p.undoState}\n      from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")} and root_id is not null`',
    caughtBy: {
      file: "test/features/workflows/servers.full.test.ts",
      test: "a step on Postgres > a later step waits for a transaction that ends its task, and is not stored when that is committed",
    },
  },
  {
    name: "lost-answer-stores-the-step-twice",
    why: "The connection breaks behind the step's commit: the second try violates the step's key, and the task fails.",
    in: "StepOperations.write",
    find: "!again",
    replace: "true",
    caughtBy: {
      file: "test/stores/server/repeats.test.ts",
      test: "a lost answer to a COMMIT on Postgres > a step is stored once, and is stored although the answer to its statement was lost",
    },
  },
  {
    name: "caught-error-is-forgotten",
    why: "A step that failed and was caught runs again after the function has gone the other way.",
    in: "WorkflowRun.#withFailures",
    find: 'unstored.map(({ step }) => ({ ...step, seq: this.#nextSeq("step") }))',
    replace: "[]",
    caughtBy: onSqlite(
      "steps",
      "a step that fails runs again with the next attempt, unless the function has caught its error and gone on",
    ),
  },
  {
    name: "uncaught-error-stays",
    why: "A retry meets the stored error of its first attempt for ever.",
    in: "WorkflowRun.#storeFailures",
    find: "if (uncaught.length > 0) await this.workflows.forget(record, uncaught);",
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
    in: "workflowsOf",
    find: "yield* steps.removeOf(ids);",
    replace: "",
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
    in: "EventOperations.endOf",
    find: "if (Number(event?.[1]) !== 1) return undefined;",
    replace: "if (event) return undefined;",
    caughtBy: onSqlite("waits", "a wait for an event that came first is over at once"),
  },
  {
    name: "repair-sees-no-deleted-child",
    why: "A parent waits for ever for a child that was deleted.",
    in: "ChildEnds.#repairChildWaits",
    find: '...gone.map((id) => [id, { id, kind: "failed", gone: true }] as const),',
    replace: "",
    caughtBy: onSqlite("waits", "upkeep wakes what another program has let go by plain SQL"),
  },
  {
    name: "end-wakes-no-parent",
    why: "A parent that waits for its child is woken by upkeep, seconds late.",
    in: "workflowsOf",
    find: "transitions.onEnd = (ended) => ends.onEnd(ended)",
    replace: "transitions.onEnd = undefined",
    caughtBy: onSqlite("children", "levels of children share one slot"),
  },
  {
    name: "children-have-no-root",
    why: "Nobody finds all tasks of a tree by one column.",
    in: "StepOperations.#insert",
    find: "task.rootId = rootId;",
    replace: "task.rootId = null;",
    caughtBy: onSqlite("children", knowEachOther),
  },
  {
    name: "end-of-a-child-reads-all-waits",
    why: "Each end among ten thousand children reads the waits for all others.",
    in: "waitStatements",
    find: '`\n      select ${all(p)} from ${d.objects(p.targets, target)} ${d.joinEach} dbq_waits\n      where target = ${d.onlyName(itemOf("target"))} order by task_id, id`',
    replace:
      "`\n      select ${all(p)} from ${d.objects(p.targets, target)} ${d.joinEach} dbq_waits\n      where target = ${d.onlyName(itemOf(\"target\"))} and kind = 'child' order by task_id, id`",
    caughtBy: {
      file: "test/conformance/plans-postgres.full.test.ts",
      test: "Postgres with statistics: false > force_custom_plan > the end of one of many children finds its rows by an index",
    },
  },
  {
    name: "all-waits-for-the-others-after-a-failure",
    why: "A failure is met only when the slowest child has ended.",
    in: "cutsAtFailure",
    find: "isAllOf(mode) || mode === groupCancels",
    replace: "mode === groupCancels",
    caughtBy: onSqlite("children", "all rejects at the first failure, while the others go on"),
  },
  {
    name: "many-children-are-over-with-the-one-that-is-named",
    why: "A task goes on although some of its many children run, and waits again.",
    in: "WaitRows.moveOn",
    find: "return next !== undefined",
    replace: "return next === -1",
    caughtBy: amongMany(
      "all has one wait for them, which names the last that has not ended, and runs the task once more",
    ),
  },
  {
    name: "failure-among-many-children-is-not-looked-at",
    why: "The failure of one of very many children is met only when all others have ended.",
    in: "ChildEnds.#tellParents",
    find: "cutting.length > 0",
    replace: "cutting.length > 1e9",
    caughtBy: amongMany(
      "the failure of any child wakes the task of all at once, and settled only at the end",
    ),
  },
  {
    name: "children-of-others-are-taken-for-own",
    why: "A task waits for a child that another task has started, whose end nobody tells it.",
    in: "rangeOf",
    find: "Number(own?.[0]) === unfinished.length",
    replace: "own !== undefined",
    caughtBy: amongMany(
      "all waits for its own ones alone, with one other between them, and one of them that another task has started",
    ),
  },
  {
    name: "cancel-leaves-the-tree",
    why: "The children of a cancelled task run on.",
    in: "workflowsOf",
    find: "tasks.onCancel = (record, error) => ends.cancelTree(record, error)",
    replace: "tasks.onCancel = undefined",
    caughtBy: onSqlite("children", "a cancel takes the tree, and without tree only the task"),
  },
  {
    name: "group-ends-with-its-first-member",
    why: "`then` runs while members run.",
    in: "ChildEnds.#isModeOver",
    find: "yield* this.#waits.hasOthers(task.id, mode)",
    replace: "false",
    caughtBy: onSqlite("groups and chains", "then runs once when all members have ended, and reads how"),
  },
  {
    name: "failed-group-cancels-no-member",
    why: "Members of a group that has failed still start.",
    in: "ChildEnds.endGroup",
    find: "yield* this.#cancel(unstarted, error);",
    replace: "",
    caughtBy: onSqlite("groups and chains", "the first failure cancels what has not started, or nothing"),
  },
  {
    name: "chain-passes-nothing-on",
    why: "A link of a chain gets no result of the one before.",
    in: "ChildEnds.#follow",
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
    in: "TaskOperations.#isRetryable",
    find: '!["running", "pending", "waiting"].includes(task.status)',
    replace: '!["running", "pending"].includes(task.status)',
    caughtBy: onSqlite(
      "groups and chains",
      "a failure in a chain cancels the rest, and a cancel of the last one cancels all",
    ),
  },
  {
    name: "met-end-of-a-child-is-not-kept",
    why: "A workflow that sleeps for longer than tasks are kept fails when it goes on.",
    in: "WorkflowRun.#ask",
    find: "await this.workflows.keepEnds(this.port.record, [...this.#met.values()]);",
    replace: "",
    caughtBy: onSqlite(
      "children",
      "the end of a child that a parent has met stays, also when the child is deleted",
    ),
  },
  {
    name: "unawaited-step-is-dropped",
    why: "A step that the function does not await never runs, and the task completes.",
    in: "WorkflowRun.ending",
    find: "return this.#allBegun().then(() => this.#end(threw, error));",
    replace: "return this.#end(threw, error);",
    caughtBy: onSqlite(
      "children",
      "a step that is not awaited runs all the same (behind another one: false)",
    ),
  },
  {
    name: "unawaited-child-is-dropped",
    why: "A child that the function does not await starts or not, by the speed of the database.",
    in: "WorkflowRun.#end",
    find: "isAlive && this.#starts.size > 0",
    replace: "false",
    caughtBy: onSqlite("children", "a child that is not awaited starts all the same, before its parent ends"),
  },
  {
    name: "steps-may-be-nested",
    why: "The names of later steps depend on whether a step was stored.",
    in: "refuseInStep",
    find: "step !== undefined",
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
  {
    name: "race-forgets-its-winner",
    why: "A child that was in time is too late after the next wait, and both branches of the function run.",
    in: "race",
    find: "stored ? Number(stored.value) : await Promise.race(promises.map(placeOf))",
    replace: "await Promise.race(promises.map(placeOf))",
    caughtBy: onSqlite(
      "waits",
      "a wait ends while a step runs beside it, and the winner of a race stays the winner",
    ),
  },
  {
    name: "running-step-is-dropped-at-the-end",
    why: "A charge that runs beside a step that fails is made again by the retry, although no process died.",
    in: "WorkflowRun.#end",
    find: "isAlive && this.#running.size > 0",
    replace: "false",
    caughtBy: onSqlite(
      "steps",
      "a step that runs when the function throws or returns is stored all the same",
    ),
  },
  {
    name: "wrapped-error-counts-as-caught",
    why: "A function that adds a sentence to its errors is retried in vain.",
    in: "WorkflowRun.#end",
    find: "threw && isBehind(failure.error, error)",
    replace: "threw && failure.error === error",
    caughtBy: onSqlite("steps", "an error that is wrapped before it is thrown is not caught"),
  },
  {
    name: "lost-attempt-keeps-its-slot",
    why: "A function that goes on after its own completion holds its slot for ever.",
    in: "WorkflowRun.lose",
    find: "this.port.lost();",
    replace: "",
    caughtBy: onSqlite(
      "steps",
      "a step after the task was completed in a transaction ends the attempt, and frees the slot",
    ),
  },
  {
    name: "taken-name-stops-all-waits",
    why: "One wait that cannot become a step keeps every sleep of the database from its end.",
    in: "stepStatements",
    find: '`\n      insert into dbq_steps (task_id, name, seq, value, generation_id, ended_at)\n      select ${d.integer(p.taskId)}, ${p.name}, case when last_seq < ${sql.raw(String(mostSeq))} then last_seq + 1 else last_seq end, ${d.json(p.value)}, ${d.integer(p.generationId)}, ${d.now(p)}\n      from (select coalesce(max(seq), 0) as last_seq from dbq_steps where task_id = ${d.integer(p.taskId)}) as earlier\n      where 1 = 1 ${d.keepExisting("name")}`',
    replace:
      "`\n      insert into dbq_steps (task_id, name, seq, value, generation_id, ended_at)\n      select ${d.integer(p.taskId)}, ${p.name}, case when last_seq < ${sql.raw(String(mostSeq))} then last_seq + 1 else last_seq end, ${d.json(p.value)}, ${d.integer(p.generationId)}, ${d.now(p)}\n      from (select coalesce(max(seq), 0) as last_seq from dbq_steps where task_id = ${d.integer(p.taskId)}) as earlier\n      where 1 = 1`",
    caughtBy: onSqlite("waits", "a wait whose name a step has taken does not stop the others"),
  },
  {
    name: "group-takes-over-a-running-task",
    why: "`then` with the key of a task that runs makes that task wait, and run twice.",
    in: "Actions.enqueueGroup",
    find: 'then && refusingKeys(prepare(then, [], this.#settings.maxPayload), "enqueueGroup: then")',
    replace: "then && prepare(then, [], this.#settings.maxPayload)",
    caughtBy: onSqlite(
      "groups and chains",
      "a group takes no unique keys, and its own task cannot be retried",
    ),
  },
  {
    name: "ends-are-not-held-up",
    why: "A charge is not paid back when its order fails.",
    in: "workflowsOf",
    find: "transitions.holdUp = (ending) => undo.holdUp(ending)",
    replace: "transitions.holdUp = undefined",
    caughtBy: undoOnSqlite(undoneAfterCancel),
  },
  {
    name: "undos-run-in-the-order-of-their-steps",
    why: "The money is back before the parcel is.",
    in: "UndoRun.undo",
    find: '[...this.steps.values()].filter(({ undo }) => undo === "wanted").reverse()',
    replace: '[...this.steps.values()].filter(({ undo }) => undo === "wanted")',
    caughtBy: undoOnSqlite(undoneAtTheEnd),
  },
  {
    name: "final-hook-runs-before-the-undos",
    why: "`onFailure` says that an order has failed whose money is not back.",
    in: "RunningAttempt.#failed",
    find: "onFailure && !ending",
    replace: "onFailure",
    caughtBy: undoOnSqlite(undoneAtTheEnd),
  },
  {
    name: "cancelled-task-ends-as-failed",
    why: "After the undos, nobody sees that somebody had cancelled the order.",
    in: "errorOf",
    find: "withEnding(end.error, end.kind)",
    replace: 'withEnding(end.error, "failed")',
    caughtBy: undoOnSqlite(undoneAfterCancel),
  },
  {
    name: "undo-beside-the-running-function",
    why: "A parcel is called back that the function then sends.",
    in: "UndoOperations.#hold",
    find: "endOf(task)?.stillRuns ? heldBy(task) : free",
    replace: "free",
    caughtBy: undoOnSqlite(undoneAfterStop),
  },
  {
    name: "stopped-function-lets-nothing-be-undone",
    why: "What a cancelled function has done is undone only when its worker stops.",
    in: "Reports.lost",
    find: "this.#features?.hasStopped(record);",
    replace: "void record;",
    caughtBy: undoOnSqlite(undoneAfterStop),
  },
  {
    name: "step-in-flight-is-not-stored",
    why: "A parcel that was sent while somebody cancelled the order is not called back.",
    in: "StepOperations.#lockStopping",
    find: "children.length === 0 && (yield* this.#undo.isStopping(task)) ? task.id : undefined",
    replace: "children.length < 0 ? task.id : undefined",
    caughtBy: undoOnSqlite(undoneAfterStop),
  },
  {
    name: "crash-while-ending-is-charged",
    why: "A task whose worker dies while it undoes its steps ends, and its money is not paid back.",
    in: "crashOf",
    find: "endingOf(record)",
    replace: "undefined",
    caughtBy: undoOnSqlite(
      "a function that ends its process each time is given up after ten attempts to undo",
    ),
  },
  {
    name: "failed-undo-is-told-as-done",
    why: "Nobody learns that the bank has not paid back.",
    in: "UndoRun.#end",
    find: 'undo.every(({ status }) => status === "done")',
    replace: "undo.length > 0",
    caughtBy: undoOnSqlite(undoneAgain),
  },
  {
    name: "first-failed-undo-ends-them",
    why: "The parcel stays away since the bank does not answer.",
    in: "UndoRun.#undoStep",
    find: 'return await this.#mark(step, "failed", JSON.stringify(describeThrown(error)));',
    replace: "throw error;",
    caughtBy: undoOnSqlite(undoneAgain),
  },
  {
    name: "undone-step-counts-as-stored",
    why: "An order that is retried after its refund is sent without being paid.",
    in: "WorkflowRun.load",
    find: 'step.undo === "done" ? this.#undone : this.steps',
    replace: "this.steps",
    caughtBy: undoOnSqlite(undoneTwice),
  },
  {
    name: "new-charge-has-the-old-key",
    why: "The bank takes the second charge for the first one, which it has paid back.",
    in: "WorkflowRun.placeOf",
    find: 'undone ? `~${undone.seq}` : ""',
    replace: '""',
    caughtBy: undoOnSqlite(undoneTwice),
  },
  {
    name: "parent-undoes-before-its-children",
    why: "The order is paid back while its parcels are still on their way.",
    in: "UndoOperations.take",
    find: "!isGone(workerIn(row.name)) || (yield* this.#hasUndoingBelow(task))",
    replace: "!isGone(workerIn(row.name))",
    caughtBy: undoOnSqlite("children that are cancelled with their parent undo their steps before it does"),
  },
  {
    name: "given-back-undo-leaves-its-mark",
    why: "A task whose worker stops while it undoes its steps runs from its beginning.",
    in: "MaintenanceOperations.handBack",
    find: "endingOf(task)",
    replace: "undefined",
    caughtBy: {
      file: "test/features/workflows/undo.test.ts",
      test: "undo on SQLite > a worker that is unregistered hands its undos to the next one",
    },
  },
  {
    name: "undoing-task-is-purged",
    why: "A purge deletes a task whose money is not paid back yet.",
    in: "isNotEnding",
    find: "`(${sql.raw(isFinished)} or error is null or ${d.text(sql`error`)} not like ${sql.raw(`'${endingPrefix}%'`)})`",
    replace: "`(1 = 1)`",
    caughtBy: undoOnSqlite(nobodyInterferes),
  },
  {
    name: "undoing-task-is-retried",
    why: "A retry by hand runs a task that undoes its steps.",
    in: "TaskOperations.#isRetryable",
    find: "this.isFixed?.(task) || isEnding(task)",
    replace: "this.isFixed?.(task)",
    caughtBy: undoOnSqlite(nobodyInterferes),
  },
  {
    name: "cancel-beside-a-step-ends-the-task",
    why: "A step that is committed while somebody cancels its task is never undone.",
    in: "mayBeHeldUp",
    find: "ending.rootId !== null || ending.ending !== undefined || ending.stillRuns === true",
    replace: "ending.rootId !== null || ending.ending !== undefined",
    caughtBy: {
      file: "test/features/workflows/servers.full.test.ts",
      test: "on a server > undo on Postgres > a step that is being committed when its task is cancelled is undone",
    },
  },
  {
    name: "look-that-finds-a-cancel-lets-nothing-be-undone",
    why: "A task that is cancelled while its function waits in its slot undoes its steps for ever.",
    in: "RunningAttempt.#hasLost",
    find: "void this.#host.checkLoss(this.record);",
    replace: "this.#leave();",
    caughtBy: undoOnSqlite(
      "a function that waits in its slot is undone when another process cancels its task",
    ),
  },
  {
    name: "undo-without-its-schema",
    why: "The undo of a step gets the stored text in place of the date that its function knows.",
    in: "undoing",
    find: "checks ? callChecked(fn, args, { ...checks, result: undefined }, attempt) : fn(...args)",
    replace: "fn(...args)",
    caughtBy: undoOnSqlite(
      "an undo gets what the schema has made of the arguments, and beforeRun runs before it",
    ),
  },
  {
    name: "undo-keeps-a-slot",
    why: "An undo that is tried again for minutes keeps the worker from its tasks.",
    in: "Dispatcher.takeOn",
    find: "this.#beside.add(attempt);",
    replace: "",
    caughtBy: undoOnSqlite(
      "tasks that nobody may undo yet hide no other one, and an undo keeps no slot from other tasks",
    ),
  },
  {
    name: "failed-undo-is-forgotten-by-a-retry",
    why: "A charge whose refund has failed stays after a retry that fails, too.",
    in: "workflowsOf",
    find: "tasks.onRetry = (id) => undo.onRetry(id)",
    replace: "tasks.onRetry = undefined",
    caughtBy: undoOnSqlite("a step that was not undone is undone when a task that was retried fails again"),
  },
  {
    name: "a-parent-undoes-before-its-children",
    why: "An order is refunded while its parcel is still being called back.",
    in: "UndoOperations.#hasUndoingBelow",
    find: "found.some(isEnding)",
    replace: "found.length < 0",
    caughtBy: inModel,
  },
  {
    name: "a-step-of-a-stopping-attempt-is-refused",
    why: "A charge that was made when its task was cancelled is neither stored nor undone.",
    in: "UndoOperations.isStopping",
    find: "row?.name.startsWith(`${free}:${generationId}:`) === true",
    replace: "row?.name === free",
    caughtBy: inModel,
  },
  {
    name: "an-undo-begins-beside-the-function",
    why: "A step is undone while the function of its task goes on.",
    in: "UndoOperations.#hold",
    find: "endOf(task)?.stillRuns ? heldBy(task) : free",
    replace: "free",
    caughtBy: inModel,
  },
  {
    name: "a-failed-attempt-to-undo-is-repeated-at-once",
    why: "A function that fails at once is called without a pause.",
    in: "UndoOperations.#hold",
    find: 'end && end.attempt?.outcome !== "crashed" ? afterFailure : 0',
    replace: "0",
    caughtBy: inModel,
  },
  {
    name: "an-attempt-to-undo-that-crashed-waits",
    why: "The undos after a crash begin five seconds later.",
    in: "UndoOperations.#hold",
    find: 'end && end.attempt?.outcome !== "crashed" ? afterFailure : 0',
    replace: "afterFailure",
    caughtBy: inModel,
  },
  {
    name: "a-time-that-is-over-looks-like-an-event",
    why: "A wait that nobody has ended looks in dbq show like a step without a value.",
    in: "outcomeOf",
    find: 'startedAt === null ? "its time was over" : ""',
    replace: '""',
    caughtBy: inCommands("show tells a wait whose time was over from an event without a payload"),
  },
  {
    name: "a-completed-task-is-to-be-undone",
    why: "For the steps of a task that has completed, dbq show says that they are to be undone.",
    in: "undoText",
    find: '(status === "completed" && undo === "wanted")',
    replace: "false",
    caughtBy: inCommands(
      "show says of the undos of a completed task nothing, and of those of an unfinished one that they are wanted",
    ),
  },
  {
    name: "a-member-hides-its-group",
    why: "From a failed member nobody finds the group that it holds up.",
    in: "placeFacts",
    find: "groupText(memberOf)",
    replace: '""',
    caughtBy: inCommands(
      "show names the group of a member and of the task behind it, and that task for the group",
    ),
  },
  {
    name: "event-counts-who-waits-afterwards",
    why: "Whoever emits an event that three tasks wait for reads that none does.",
    in: "emit",
    find: "waitedText(waited)",
    replace: "waitedText(0)",
    caughtBy: inCommands(
      "list --waiting-for finds those that wait for an event or a task, and event lets them go",
    ),
  },
];
