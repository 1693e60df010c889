/** Faults of upkeep: heartbeats, dead workers, what they held, what is due and what is old. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const statements = "src/stores/sql/statements.ts";
const operations = "src/stores/sql/maintenance.ts";
const upkeep = "src/worker/maintenance.ts";
const detector = "src/worker/failure-detector.ts";
const host = "src/base/runtime/process-identity.ts";

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
    file: statements,
    find: "where id = ${p.workerId} and beat = ${p.beat} ${d.locked}",
    replace: "where id = ${p.workerId} ${d.locked}",
    caughtBy: workers("rescue of a worker that has beaten since, or is gone, does nothing"),
  },
  {
    name: "rescue-ignores-the-row-count",
    why: "Each worker that saw the dead one charges its tasks once more.",
    file: operations,
    find: "workerId, beat })).length === 0) return 0;",
    replace: "workerId, beat })).length < 0) return 0;",
    caughtBy: workers("rescue of a worker that has beaten since, or is gone, does nothing"),
  },
  {
    name: "rescue-frees-everybodys-tasks",
    why: "One death makes the tasks of all workers run twice.",
    file: statements,
    find: "where status = 'running' and worker_id = ${p.workerId}",
    replace: "where status = 'running' and ${p.workerId} is not null",
    caughtBy: workers("rescue frees what the dead worker ran, and nothing else"),
  },
  {
    name: "crash-is-not-charged",
    why: "A task that kills its process kills one worker after another, for ever.",
    file: operations,
    find: 'release(task, "pending", { charge: 1,',
    replace: 'release(task, "pending", { charge: 0,',
    caughtBy: workers("rescue charges a retry and makes the task pending at once"),
  },
  {
    name: "crash-is-put-off",
    why: "A task whose worker died waits for a backoff, beyond the promised second.",
    file: operations,
    find: 'release(task, "pending", { charge: 1, delay: null,',
    replace: 'release(task, "scheduled", { charge: 1, delay: 1_000,',
    caughtBy: workers("rescue charges a retry and makes the task pending at once"),
  },
  {
    name: "crash-gets-one-retry-more",
    why: "A poison task kills one worker more than its max_retries allow.",
    file: operations,
    find: "task.retryCount < task.maxRetries",
    replace: "task.retryCount <= task.maxRetries",
    caughtBy: workers("rescue fails a task that has no retries left"),
  },
  {
    name: "crash-leaves-no-attempt",
    why: "Nobody can see which worker died of a task, and how often.",
    file: operations,
    find: "if (freed) yield* record([{ ...task, attempt }]);",
    replace: "",
    caughtBy: workers("a task that kills each worker fails after its retries"),
  },
  {
    name: "unregister-hands-nothing-back",
    why: "What a worker held when it stopped stays running, until it is taken for an orphan and charged.",
    file: operations,
    after: "function* unregister",
    find: "yield* rows(s.heldBy, { workerId })",
    replace: "(yield* rows(s.heldBy, { workerId })).slice(0, 0)",
    caughtBy: workers("unregister hands back what the worker holds, uncharged, and nothing of others"),
  },
  {
    name: "unregister-charges",
    why: "A graceful stop costs each task that it hands back one of its retries.",
    file: operations,
    after: "function* unregister",
    find: "charge: 0",
    replace: "charge: 1",
    caughtBy: workers("unregister hands back what the worker holds, uncharged, and nothing of others"),
  },
  {
    name: "register-begins-at-the-same-beat",
    why: "A worker that registers anew is taken for its former self by a late rescue, and loses its tasks.",
    file: operations,
    find: "Math.floor(Math.random() * 2 ** 31)",
    replace: "1",
    caughtBy: workers(
      "a worker that was rescued may register again under its name, and is not taken for its former self",
    ),
  },
  {
    name: "orphans-at-any-age",
    why: "A task is taken from a worker that is just registering anew.",
    file: statements,
    find: "coalesce(started_at, updated_at) < ${before(p, p.age)}",
    replace: "coalesce(started_at, updated_at) <= ${d.now(p)} and ${d.integer(p.age)} > 0",
    caughtBy: workers("orphans of workers that do not exist are freed when they are old enough"),
  },
  {
    name: "orphans-of-living-workers",
    why: "Each task that runs longer than a lease runs twice.",
    file: statements,
    find: "and not exists (select 1 from dbq_workers where dbq_workers.id = dbq_tasks.worker_id)",
    replace: "",
    caughtBy: workers("orphans of workers that do not exist are freed when they are old enough"),
  },
  {
    name: "lost-row-is-not-noticed",
    why: "A worker that others took for dead goes on beating into nothing, and claims nothing any more.",
    file: operations,
    find: "(yield* count(s.beat, { workerId })) > 0",
    replace: "(yield* count(s.beat, { workerId })) >= 0",
    caughtBy: onFile("heartbeat > a beat of a worker whose row is gone says so, and makes none"),
  },
  {
    name: "heartbeat-on-the-event-loop",
    why: "A handler that computes for longer than a lease is taken for dead, and runs twice.",
    file: "src/stores/sqlite/store.ts",
    find: "if (path === undefined) {\n        const stop = repeat",
    replace: "if (path === undefined || every > 0) {\n        const stop = repeat",
    caughtBy: onFile("heartbeat > a heartbeat goes on while the event loop is blocked"),
  },
  {
    name: "heartbeat-does-not-tell-a-loss",
    why: "A worker that woke after its lease goes on with tasks that others run by now.",
    file: "src/stores/sqlite/heartbeat-thread.mjs",
    find: 'parentPort?.postMessage("lost")',
    replace: 'parentPort?.postMessage("beat")',
    caughtBy: {
      file: "test/stores/sqlite/heartbeat.test.ts",
      test: "the thread tells that the row of its worker is gone",
    },
  },
  {
    name: "liveness-ignores-process-start",
    why: "A dead worker whose pid was given to another process is thought alive until its lease ends.",
    file: host,
    find: "other.processStart !== status.start",
    replace: "other.pid !== other.pid",
    caughtBy: hosts("whose pid was given to another process is dead"),
  },
  {
    name: "liveness-ignores-zombies",
    why: "A worker whose parent does not reap it is thought alive until its lease ends.",
    file: host,
    find: 'if (status.state === "Z" || status.state === "X") return "dead";',
    replace: "",
    caughtBy: hosts("that is a zombie is dead: only its parent has not asked yet"),
  },
  {
    name: "liveness-ignores-the-boot-id",
    why: "A machine of the same name takes living workers for dead, since it does not have their pids.",
    file: host,
    find: "other.bootId === here.bootId &&",
    replace: "",
    caughtBy: hosts("that cannot be seen from here is unknown, even with a pid that nobody has"),
  },
  {
    name: "liveness-ignores-the-pid-namespace",
    why: "A worker in another container is taken for dead, since nobody here has its pid.",
    file: host,
    find: "&& other.pidNamespace === here.pidNamespace",
    replace: "",
    caughtBy: hosts("that cannot be seen from here is unknown, even with a pid that nobody has"),
  },
  {
    name: "death-by-the-wall-clock",
    why: "A clock that is set forward by an hour kills all workers in the eyes of the others.",
    file: detector,
    find: "if (still >= needed) return true;",
    replace: "if (worker.heartbeatAge >= worker.lease) return true;",
    caughtBy: deaths(
      "a heartbeat > that is old by the wall clock alone means nothing: that clock may have jumped",
    ),
  },
  {
    name: "death-without-a-write",
    why: "After somebody held the write lock for a lease, all workers take each other for dead.",
    file: detector,
    find: "couldBeatSince: undefined };",
    replace: "couldBeatSince: since };",
    caughtBy: deaths("a heartbeat > that stood still while nobody could write proves nothing"),
  },
  {
    name: "death-of-ones-own-kind",
    why: "Two workers of one process, whose event loop was blocked, take each other for dead.",
    file: detector,
    find: "workers.filter(({ id }) => !living.has(id))",
    replace: "workers.filter(({ id }) => id !== undefined)",
    caughtBy: deaths(
      "a process > this one: its workers are alive from their making to their stop, however still their heartbeat",
    ),
  },
  {
    name: "newcomers-are-not-swept-for",
    why: "The death of a worker that came to a lonely one is seen seconds later than promised.",
    file: upkeep,
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
    file: "src/worker/worker.ts",
    find: "run.maintenance.start();\n    run.dispatcher.lookForWork();",
    replace: "run.dispatcher.lookForWork();\n    run.maintenance.start();",
    caughtBy: {
      file: "test/worker/rescue-first.test.ts",
      test: "a worker that starts runs what was cut off first, then what waits",
    },
  },
  {
    name: "promoted-tasks-wake-nobody",
    why: "A delayed task runs when the next poll happens to come, not when it is due.",
    file: upkeep,
    find: "if (promoted > 0) this.#host.onWork();",
    replace: "",
    caughtBy: { file: "test/worker/several-workers.test.ts", test: "what one promotes, the other runs" },
    hangs: true,
  },
  {
    name: "promotion-before-its-time",
    why: "A delayed task runs at the next look, whatever its moment.",
    file: statements,
    find: "where status = 'scheduled' and wait_until <= ${d.now(p)}",
    replace: "where status = 'scheduled' and wait_until > 0",
    caughtBy: onFile("promote > makes due tasks pending, and leaves the others"),
  },
  {
    name: "prune-ignores-the-retention",
    why: "What has ended is deleted at once, before anybody could read its result.",
    file: statements,
    find: "finished_at < ${before(p, p.age)}",
    replace: "finished_at <= ${d.now(p)} and ${d.integer(p.age)} >= 0",
    caughtBy: onFile(
      "purge and prune > prune deletes what ended longer ago than its status is kept, with its attempts",
    ),
  },
  {
    name: "prune-leaves-attempts",
    why: "The table of attempts grows for ever.",
    file: "src/stores/sql/tasks.ts",
    find: "yield* count(s.deleteAttempts, { ids });",
    replace: "",
    caughtBy: onFile(
      "purge and prune > prune deletes what ended longer ago than its status is kept, with its attempts",
    ),
  },
  {
    name: "a-step-of-the-clock-shortens-a-lease",
    why: "When the clock is set forward, a worker of a short lease that beats is taken for dead.",
    file: detector,
    find: "const old = !seen.came && worker.heartbeatAge",
    replace: "const old = worker.heartbeatAge",
    caughtBy: {
      file: "test/model/found.test.ts",
      test: "a clock that is stepped forwards takes no worker that beats for dead",
    },
  },
];
