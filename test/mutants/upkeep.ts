/** Faults of upkeep: heartbeats, dead workers, what they held, what is due and what is old. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

/** A case of the conformance suite, on a file. */
const onFile = (test: string) => ({
  file: "test/conformance/sqlite.test.ts",
  test: `'SQLite, a file' > ${test}`,
});
const workers = (test: string) => onFile(`workers: register, rescue, unregister > ${test}`);
const deaths = (test: string) => ({ file: "test/worker/maintenance.test.ts", test });
const hosts = (test: string) => ({
  file: "test/base/runtime/process-identity.test.ts",
  test: `another process (skipped where there is no /proc) > ${test}`,
});

export const upkeepFaults: readonly Mutant[] = [
  {
    name: "rescue-ignores-the-beat",
    why: "A worker that has beaten since it was looked at loses its tasks, and they run twice.",
    in: "statements.deadWorker",
    find: "`where id = ${p.workerId} and beat = ${p.beat} ${d.locked}`",
    replace: "`where id = ${p.workerId} ${d.locked}`",
    caughtBy: workers("rescue does nothing for a worker that has sent a heartbeat since, or is gone"),
  },
  {
    name: "rescue-ignores-the-row-count",
    why: "Each worker that saw the dead one charges its tasks once more.",
    in: "maintenanceOperations.rescue",
    find: "if ((yield* rows(s.deadWorker, { workerId, beat })).length === 0) return 0;",
    replace: "if ((yield* rows(s.deadWorker, { workerId, beat })).length < 0) return 0;",
    caughtBy: workers("rescue does nothing for a worker that has sent a heartbeat since, or is gone"),
  },
  {
    name: "rescue-frees-everybodys-tasks",
    why: "One death makes the tasks of all workers run twice.",
    in: "statements.heldBy",
    find: "`where status = 'running' and worker_id = ${p.workerId}`",
    replace: "`where status = 'running' and ${p.workerId} is not null`",
    caughtBy: workers("rescue frees the dead worker's running tasks, and nothing else"),
  },
  {
    name: "crash-is-not-charged",
    why: "A task that kills its process kills one worker after another, for ever.",
    in: "maintenanceOperations.chargeCrash",
    find: "charge: 1",
    replace: "charge: 0",
    caughtBy: workers("rescue charges a retry and makes the task pending at once"),
  },
  {
    name: "crash-is-put-off",
    why: "A task whose worker died waits for a backoff, beyond the promised second.",
    in: "maintenanceOperations.chargeCrash",
    find: 'release(task, "pending", { charge: 1, delay: null, error })',
    replace: 'release(task, "scheduled", { charge: 1, delay: 1_000, error })',
    caughtBy: workers("rescue charges a retry and makes the task pending at once"),
  },
  {
    name: "crash-gets-one-retry-more",
    why: "A poison task kills one worker more than its max_retries allow.",
    in: "maintenanceOperations.chargeCrash",
    find: "task.retryCount < task.maxRetries",
    replace: "task.retryCount <= task.maxRetries",
    caughtBy: workers("rescue fails a task that has no retries left"),
  },
  {
    name: "crash-leaves-no-attempt",
    why: "Nobody can see which worker died of a task, and how often.",
    in: "maintenanceOperations.chargeCrash",
    find: "if (freed) yield* record([{ ...task, attempt }]);",
    replace: "",
    caughtBy: workers("a task that kills each of its workers fails after its retries"),
  },
  {
    name: "unregister-hands-nothing-back",
    why: "What a worker held when it stopped stays running, until it is taken for an orphan and charged.",
    in: "maintenanceOperations.unregister",
    find: "yield* rows(s.heldBy, { workerId })",
    replace: "(yield* rows(s.heldBy, { workerId })).slice(0, 0)",
    caughtBy: workers("unregister hands back the worker's tasks without a charge, and no tasks of others"),
  },
  {
    name: "unregister-charges",
    why: "A graceful stop costs each task that it hands back one of its retries.",
    in: "maintenanceOperations.unregister",
    find: "charge: 0",
    replace: "charge: 1",
    caughtBy: workers("unregister hands back the worker's tasks without a charge, and no tasks of others"),
  },
  {
    name: "register-begins-at-the-same-beat",
    why: "A worker that registers anew is taken for its former self by a late rescue, and loses its tasks.",
    in: "maintenanceOperations.register",
    find: "Math.floor(Math.random() * 2 ** 31)",
    replace: "1",
    caughtBy: workers(
      "a rescued worker may register again under its id, and a late rescue of its former registration does nothing",
    ),
  },
  {
    name: "orphans-at-any-age",
    why: "A task is taken from a worker that is just registering anew.",
    in: "statements.orphans",
    find: "`coalesce(started_at, updated_at) < ${before(p, p.age)}`",
    replace: "`coalesce(started_at, updated_at) <= ${d.now(p)} and ${d.integer(p.age)} > 0`",
    caughtBy: workers(
      "rescueOrphans frees running tasks of workers that do not exist, once they are old enough",
    ),
  },
  {
    name: "orphans-of-living-workers",
    why: "Each task that runs longer than a lease runs twice.",
    in: "statements.orphans",
    find: "`and not exists (select 1 from dbq_workers where dbq_workers.id = dbq_tasks.worker_id)`",
    replace: "",
    caughtBy: workers(
      "rescueOrphans frees running tasks of workers that do not exist, once they are old enough",
    ),
  },
  {
    name: "lost-row-is-not-noticed",
    why: "A worker that others took for dead goes on beating into nothing, and claims nothing any more.",
    in: "maintenanceOperations.beat",
    find: "(yield* count(s.beat, { workerId })) > 0",
    replace: "(yield* count(s.beat, { workerId })) >= 0",
    caughtBy: onFile(
      "heartbeat > heartbeat returns false for a worker whose row is gone, and does not create one",
    ),
  },
  {
    name: "heartbeat-on-the-event-loop",
    why: "A handler that computes for longer than a lease is taken for dead, and runs twice.",
    in: "sqliteStore.keepAlive",
    find: "path === undefined",
    replace: "path === undefined || every > 0",
    caughtBy: onFile("heartbeat > keepAlive sends heartbeats while the event loop is blocked"),
  },
  {
    name: "heartbeat-does-not-tell-a-loss",
    why: "A worker that woke after its lease goes on with tasks that others run by now.",
    in: "once",
    find: 'if (changes === 0) parentPort?.postMessage("lost"); else $rest;',
    replace: 'if (changes === 0) parentPort?.postMessage("beat"); else $rest;',
    caughtBy: {
      file: "test/stores/sqlite/heartbeat.test.ts",
      test: "the thread tells that the row of its worker is gone",
    },
  },
  {
    name: "liveness-ignores-process-start",
    why: "A dead worker whose pid was given to another process is thought alive until its lease ends.",
    in: "livenessOf",
    find: "other.processStart !== status.start",
    replace: "other.pid !== other.pid",
    caughtBy: hosts("whose pid was given to another process is dead"),
  },
  {
    name: "liveness-ignores-zombies",
    why: "A worker whose parent does not reap it is thought alive until its lease ends.",
    in: "livenessOf",
    find: 'if (status.state === "Z" || status.state === "X") return "dead";',
    replace: "",
    caughtBy: hosts("that is a zombie is dead: only its parent has not asked yet"),
  },
  {
    name: "liveness-ignores-the-boot-id",
    why: "A machine of the same name takes living workers for dead, since it does not have their pids.",
    in: "livenessOf",
    find: "other.host === here.host && other.bootId === here.bootId && other.pidNamespace === here.pidNamespace",
    replace: "other.host === here.host &&  other.pidNamespace === here.pidNamespace",
    caughtBy: hosts("that cannot be seen from here is unknown, even with a pid that nobody has"),
  },
  {
    name: "liveness-ignores-the-pid-namespace",
    why: "A worker in another container is taken for dead, since nobody here has its pid.",
    in: "livenessOf",
    find: "other.host === here.host && other.bootId === here.bootId && other.pidNamespace === here.pidNamespace",
    replace: "other.host === here.host && other.bootId === here.bootId",
    caughtBy: hosts("that cannot be seen from here is unknown, even with a pid that nobody has"),
  },
  {
    name: "death-by-the-wall-clock",
    why: "A clock that is set forward by an hour kills all workers in the eyes of the others.",
    in: "FailureDetector.#isSilent",
    find: "if (still >= needed) return true;",
    replace: "if (worker.heartbeatAge >= worker.lease) return true;",
    caughtBy: deaths(
      "a heartbeat > that is old by the wall clock alone means nothing: that clock may have jumped",
    ),
  },
  {
    name: "death-without-a-write",
    why: "After somebody held the write lock for a lease, all workers take each other for dead.",
    in: "FailureDetector.#observe",
    find: "couldBeatSince: undefined",
    replace: "couldBeatSince: since",
    caughtBy: deaths("a heartbeat > that stood still while nobody could write proves nothing"),
  },
  {
    name: "death-of-ones-own-kind",
    why: "Two workers of one process, whose event loop was blocked, take each other for dead.",
    in: "FailureDetector.others",
    find: "!living.has(id)",
    replace: "id !== undefined",
    caughtBy: deaths(
      "a process > this one: its workers are alive from their making to their stop, however still their heartbeat",
    ),
  },
  {
    name: "newcomers-are-not-swept-for",
    why: "The death of a worker that came to a lonely one is seen seconds later than promised.",
    in: "Maintenance.lookAround",
    find: "this.#sweeping.within(sweepEvery);",
    replace: "",
    caughtBy: {
      file: "test/worker/maintenance-newcomer.test.ts",
      test: "a worker that came and died is found within 400 ms of the hint",
    },
  },
  {
    name: "claims-before-the-first-look-for-the-dead",
    why: "After a crash of the whole host, a backlog goes before the tasks that were cut off.",
    in: "Worker.#start",
    find: "run.maintenance.start(); run.dispatcher.lookForWork();",
    replace: "run.dispatcher.lookForWork(); run.maintenance.start();",
    caughtBy: {
      file: "test/worker/rescue-first.test.ts",
      test: "a worker that starts runs what was cut off first, then what waits",
    },
  },
  {
    name: "promoted-tasks-wake-nobody",
    why: "A delayed task runs when the next poll happens to come, not when it is due.",
    in: "Maintenance.#promote",
    find: "if (promoted > 0) this.#host.onWork();",
    replace: "",
    caughtBy: { file: "test/worker/several-workers.test.ts", test: "what one promotes, the other runs" },
    hangs: true,
  },
  {
    name: "promotion-before-its-time",
    why: "A delayed task runs at the next look, whatever its moment.",
    in: "statements.due",
    find: "`where status = 'scheduled' and wait_until <= ${d.now(p)}`",
    replace: "`where status = 'scheduled' and wait_until > 0`",
    caughtBy: onFile("promote > promote makes due tasks pending, and leaves the others scheduled"),
  },
  {
    name: "prune-ignores-the-retention",
    why: "What has ended is deleted at once, before anybody could read its result.",
    in: "statements.expired",
    find: "`finished_at < ${before(p, p.age)}`",
    replace: "`finished_at <= ${d.now(p)} and ${d.integer(p.age)} >= 0`",
    caughtBy: onFile(
      "purge and prune > prune deletes tasks that ended longer ago than their status is kept, with their attempts",
    ),
  },
  {
    name: "prune-leaves-attempts",
    why: "The table of attempts grows for ever.",
    in: "operations.remove",
    find: "yield* count(s.deleteAttempts, { ids });",
    replace: "",
    caughtBy: onFile(
      "purge and prune > prune deletes tasks that ended longer ago than their status is kept, with their attempts",
    ),
  },
  {
    name: "a-step-of-the-clock-shortens-a-lease",
    why: "When the clock is set forward, a worker of a short lease that beats is taken for dead.",
    in: "FailureDetector.#isSilent",
    find: "const old = !seen.came && worker.heartbeatAge >= worker.lease;",
    replace: "const old = worker.heartbeatAge >= worker.lease;",
    caughtBy: {
      file: "test/model/found.test.ts",
      test: "a clock that is stepped forwards takes no worker that beats for dead",
    },
  },
];
