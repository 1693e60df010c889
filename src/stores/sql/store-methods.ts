/** The methods of a Store that are one operation each, over a runner of operations. */
import type {
  AgentStore,
  DrainStore,
  HealthStore,
  LimitScope,
  LimitStore,
  LookStore,
  MaybePromise,
  NewTask,
  ScheduleStore,
  ScheduleWrites,
  StatsStore,
  Store,
  TaskStore,
  TransferStore,
  WorkerStore,
} from "../../store.ts";
import type { Operations } from "./operations.ts";
import type { Program } from "./program.ts";
import { settleAndClaim } from "./settle-and-claim.ts";

/** Runs operations on one database. An operation is given as a function, since a busy database makes it run again. */
export interface Runner {
  /** As it is: each statement is a transaction by itself, unless the operation begins one. */
  run<T>(op: () => Program<T>): Promise<T>;
  /** In a transaction of its own that may write from its first statement on. */
  write<T>(op: () => Program<T>): Promise<T>;
}

export function methodsOver(
  runner: Runner,
  {
    tasks,
    logs,
    cycle,
    maintenance,
    agents,
    drains,
    limits,
    schedules,
    transfer,
    look,
    stats,
    health,
  }: Operations,
): TaskStore &
  Omit<WorkerStore, "keepAlive"> &
  Pick<Store, "agents" | "drains" | "limits" | "schedules" | "transfer" | "look" | "stats" | "health"> {
  return {
    ...taskMethods(runner, tasks),
    logs: (asked, limit) => runner.run(() => logs.logs(asked, limit)),
    log: (lines, keep) => runner.write(() => logs.log(lines, keep)),
    settleAndClaim: (asked) => settleAndClaim(runner.run, cycle, asked),
    progress: (notes) => runner.write(() => tasks.progress(notes)),
    fillDefaults: (filled) => runner.write(() => tasks.fillDefaults(filled)),
    ...maintenanceMethods(runner, maintenance),
    // A pass that finds nothing to free begins no transaction.
    freeKeys: (after, limit) => runner.run(() => tasks.freeKeys(after, limit)),
    agents: agentMethods(runner, agents),
    drains: drainMethods(runner, drains),
    limits: limitMethods(runner, limits),
    schedules: scheduleMethods(runner, schedules),
    transfer: transferMethods(runner, transfer),
    look: lookMethods(runner, look),
    stats: statsMethods(runner, stats),
    health: healthMethods(runner, health),
  };
}

function taskMethods({ run, write }: Runner, ops: Operations["tasks"]): Omit<TaskStore, "logs"> {
  return {
    insert: (tasks, onDuplicate) =>
      (isOneStatement(tasks) ? run : write)(() => ops.insert(tasks, onDuplicate)),
    get: (ids) => run(() => ops.get(ids)),
    list: (filter, limit, after) => run(() => ops.list(filter, limit, after)),
    count: (filter) => run(() => ops.count(filter)),
    idle: (queueNames) => run(() => ops.idle(queueNames)),
    attempts: (taskId) => run(() => ops.attempts(taskId)),
    findEnded: (ids) => run(() => ops.findEnded(ids)),
    taskStates: (ids) => run(() => ops.taskStates(ids)),
    taskProgress: (ids) => run(() => ops.taskProgress(ids)),
    cancel: (id, error) => write(() => ops.cancel(id, error)),
    retry: (id) => write(() => ops.retry(id)),
    purge: (filter, limit, after) => write(() => ops.purge(filter, limit, after)),
  };
}

/** BEGIN and COMMIT would take as long again as the statement: 6 µs on SQLite, two round trips on a server. */
function isOneStatement(tasks: readonly NewTask[]): boolean {
  return tasks.length === 1 && tasks[0]?.uniqueKey === null;
}

function maintenanceMethods(
  { run, write }: Runner,
  ops: Operations["maintenance"],
): Omit<WorkerStore, "keepAlive" | "settleAndClaim" | "progress" | "fillDefaults" | "log" | "freeKeys"> {
  return {
    register: (worker) => write(() => ops.register(worker)),
    unregister: (workerId) => write(() => ops.unregister(workerId)),
    workers: () => run(() => ops.workers()),
    heartbeat: (workerId) => write(() => ops.beat(workerId)),
    heldBy: (workerId) => run(() => ops.heldBy(workerId)),
    rescue: (workerId, beat, how) => write(() => ops.rescue(workerId, beat, how)),
    rescueOrphans: (age) => write(() => ops.rescueOrphans(age)),
    promote: async (limit) => {
      const next = await run(() => ops.nextDue());
      if (next.nextDue !== 0) return { promoted: 0, ...next };
      const promoted = await write(() => ops.promote(limit));
      return { promoted, ...(await run(() => ops.nextDue())) };
    },
    prune: (retention, limit) => write(() => ops.prune(retention, limit)),
  };
}

function agentMethods({ run, write }: Runner, ops: Operations["agents"]): AgentStore {
  return {
    add: (agent) => write(() => ops.add(agent)),
    list: () => run(() => ops.list()),
    revoke: (name) => write(() => ops.revoke(name)),
    // Each is one statement, as a rule: BEGIN and COMMIT would be two round trips more.
    seen: (name) => run(() => ops.seen(name)),
    beat: (workers) => (workers.length === 0 ? Promise.resolve() : run(() => ops.beat(workers))),
    claimed: (workerId) => run(() => ops.claimed(workerId)),
    held: (workerIds) => (workerIds.length === 0 ? Promise.resolve([]) : run(() => ops.held(workerIds))),
  };
}

function drainMethods({ run, write }: Runner, ops: Operations["drains"]): DrainStore {
  return {
    origin: async () => (await run(() => ops.readOrigin())) ?? (await write(() => ops.origin())),
    knownOrigin: () => run(() => ops.readOrigin()),
    adoptOrigin: (origin) => write(() => ops.adoptOrigin(origin)),
    take: async (queueName, workerId, target) => {
      // A drain that stands by writes nothing.
      const holder = await run(() => ops.holder(queueName));
      if (holder?.workerId === workerId) return true;
      return !holder?.lives && (await write(() => ops.take(queueName, workerId, target)));
    },
    funcs: (queueName) => run(() => ops.funcs(queueName)),
    manualRetries: (ids) => run(() => ops.manualRetries(ids)),
    handOver: (sent) => write(() => ops.handOver(sent)),
    settle: (id, outcome, retries) => write(() => ops.settle(id, outcome, retries)),
    expire: (queueName, within, limit) => write(() => ops.expire(queueName, within, limit)),
    remove: (ids) => write(() => ops.remove(ids)),
    forget: (queueName, age, from, limit) => write(() => ops.forget(queueName, age, from, limit)),
    lag: () => run(() => ops.lag()),
  };
}

function limitMethods({ run, write }: Runner, ops: Operations["limits"]): LimitStore {
  const letGo = async (scope: LimitScope) => {
    while (await write(() => ops.letGo(scope)));
  };
  return {
    set: async (scope, values) => {
      if (await write(() => ops.set(scope, values))) await letGo(scope);
    },
    declare: async (limits) => {
      for (const scope of await write(() => ops.declare(limits))) await letGo(scope);
    },
    pause: (scope) => write(() => ops.pause(scope)),
    resume: (scope) => write(() => ops.resume(scope)),
    throttle: (scope, delay) => write(() => ops.throttle(scope, delay)),
    resizeWorker: (workerId, concurrency) => write(() => ops.resizeWorker(workerId, concurrency)),
    list: (kind) => run(() => ops.list(kind)),
    records: () => run(() => ops.records()),
    about: (task) => run(() => ops.about(task)),
    namesInUse: () => run(() => ops.namesInUse()),
    adopt: (records) => write(() => ops.adopt(records)),
    prune: async (age, limit) => {
      const found = await run(() => ops.spent(age, limit));
      return found.length === 0 ? 0 : await write(() => ops.deleteSpent(age, found));
    },
  };
}

/** What is done to schedules inside of an app's transaction. */
export function scheduleWrites(
  write: <T>(op: () => Program<T>) => MaybePromise<T>,
  ops: Operations["schedules"],
): ScheduleWrites {
  return {
    list: (name) => write(() => ops.list(name)),
    change: (name, decide) => write(() => ops.change(name, decide)),
    remove: (name) => write(() => ops.remove(name)),
  };
}

function scheduleMethods({ run, write }: Runner, ops: Operations["schedules"]): ScheduleStore {
  return {
    list: (name) => run(() => ops.list(name)),
    change: (name, decide) => write(() => ops.change(name, decide)),
    remove: (name) => run(() => ops.remove(name)),
    nextSlot: () => run(() => ops.nextSlot()),
    fire: (limit, decide, name) => write(() => ops.fire(limit, decide, name)),
  };
}

function transferMethods({ run, write }: Runner, ops: Operations["transfer"]): TransferStore {
  return {
    state: () => run(() => ops.state()),
    setState: (next, expected) => write(() => ops.setState(next, expected)),
    advance: (id, from, to) => write(() => ops.advance(id, from, to)),
    freeze: (id) => write(() => ops.freeze(id)),
    unfreeze: (id) => write(() => ops.unfreeze(id)),
    rowVersions: (table, after, limit) => run(() => ops.rowVersions(table, after, limit)),
    read: (table, ids) => run(() => ops.read(table, ids)),
    write: (id, table, rows, removed) => write(() => ops.write(id, table, rows, removed)),
    writeAgents: (id, agents) => write(() => ops.writeAgents(id, agents)),
    writeSchedules: (id, schedules) => write(() => ops.writeSchedules(id, schedules)),
    removeKeyedTasks: (id) => write(() => ops.removeKeyed(id)),
    size: (table) => run(() => ops.size(table)),
    lastId: (table) => run(() => ops.lastId(table)),
    setLastId: (table, id) => write(() => ops.setLastId(table, id)),
  };
}

function lookMethods({ run, write }: Runner, ops: Operations["look"]): LookStore {
  return {
    areFew: (filter, most) => run(() => ops.areFew(filter, most)),
    listFew: (filter, limit, after, most) => run(() => ops.listFew(filter, limit, after, most)),
    countFew: (filter, most) => run(() => ops.countFew(filter, most)),
    countRange: (filter, range) => run(() => ops.countRange(filter, range)),
    span: (after, rows) => run(() => ops.span(after, rows)),
    listRange: (filter, limit, range) => run(() => ops.listRange(filter, limit, range)),
    texts: (filter, characters, range) => run(() => ops.texts(filter, characters, range)),
    edit: (id, change, generationId) => write(() => ops.edit(id, change, generationId)),
    retryEach: (ids) => write(() => ops.retryEach(ids)),
    cancelEach: (ids, error) => write(() => ops.cancelEach(ids, error)),
    deleteEach: (ids) => write(() => ops.deleteEach(ids)),
    audit: (entry) => write(() => ops.audit(entry)),
    audits: (target, limit) => run(() => ops.audits(target, limit)),
    pruneAudits: (age, limit) => write(() => ops.pruneAudits(age, limit)),
  };
}

/** The operations begin their own transactions, of which nobody is notified. */
function statsMethods({ run }: Runner, ops: Operations["stats"]): StatsStore {
  return {
    write: (workerId, minute, counted) => run(() => ops.write(workerId, minute, counted)),
    fold: () => run(() => ops.fold()),
    read: (filter) => run(() => ops.read(filter)),
    hours: (time) => run(() => ops.hours(time)),
    counts: (from) => run(() => ops.counts(from)),
    totals: () => run(() => ops.totals()),
  };
}

function healthMethods({ run }: Runner, ops: Operations["health"]): HealthStore {
  return {
    backlog: (most, inAll) => run(() => ops.backlog(most, inAll)),
    sample: (status, most) => run(() => ops.sample(status, most)),
    drained: () => run(() => ops.drained()),
  };
}
