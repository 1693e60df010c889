/** The methods of a store that are one operation each, over a runner of operations. */
import type { LimitScope } from "../../base/options/limits.ts";
import type { CauseReportStore, CauseStore } from "../../features/causes/contract.ts";
import type { DrainStore } from "../../features/drain/contract.ts";
import type { EncryptionStore } from "../../features/encryption/contract.ts";
import type { FailureStore } from "../../features/failures/contract.ts";
import type { HookStore } from "../../features/hooks/contract.ts";
import type { HealthStore } from "../../features/inspect/contract.ts";
import type { LimitStore } from "../../features/limits/contract.ts";
import type { LookStore } from "../../features/look/contract.ts";
import type { AgentStore } from "../../features/manager/contract.ts";
import type { ScheduleStore, ScheduleWrites } from "../../features/schedules/contract.ts";
import type { StatsStore } from "../../features/stats/contract.ts";
import type { FullStore } from "../../features/store.ts";
import type { TestStore } from "../../features/testing/contract.ts";
import type { TransferStore } from "../../features/transfer/contract.ts";
import { isSource } from "../../features/transfer/contract.ts";
import type { WorkflowStore, WorkflowWrites } from "../../features/workflows/contract.ts";
import type { MaybePromise, NewTask, TaskStore, WorkerStore } from "../../store.ts";
import { Batches } from "./around-refused.ts";
import { maintenanceMethods } from "./maintenance-methods.ts";
import type { Operations } from "./operations.ts";
import type { Program, Runner } from "./program.ts";
import { withRefusals } from "./refusals.ts";
import { idsOf } from "./removal.ts";
import { settleAndClaim } from "./settle-and-claim.ts";
import { hasTexts } from "./tasks.ts";

const ignore = () => undefined;

type StoreMethods = TaskStore &
  Omit<WorkerStore, "keepAlive"> &
  Pick<
    FullStore,
    | "agents"
    | "drains"
    | "limits"
    | "schedules"
    | "transfer"
    | "look"
    | "stats"
    | "failures"
    | "health"
    | "causes"
    | "encryption"
    | "hooks"
    | "testing"
    | "workflows"
  >;

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
    failures,
    health,
    causes,
    causeReports,
    encryption,
    hooks,
    testing,
    workflows,
    undo,
  }: Operations,
): StoreMethods {
  const batches = new Batches(async () => {
    const state = await runner.run(() => transfer.state());
    return state !== undefined && isSource(state.phase);
  });
  return {
    ...taskMethods(runner, tasks, batches),
    logs: (asked, limit) => runner.run(() => logs.logs(asked, limit)),
    log: (lines, keep) => runner.write(() => logs.log(lines, keep)),
    settleAndClaim: withRefusals(runner, tasks, (asked) => settleAndClaim(runner.run, cycle, asked)),
    progress: (notes) => runner.write(() => tasks.progress(notes)),
    fillDefaults: (filled) => runner.write(() => tasks.fillDefaults(filled)),
    ...maintenanceMethods(runner, maintenance, batches),
    // A pass that finds nothing to free begins no transaction.
    freeKeys: (after, limit) => runner.run(() => tasks.freeKeys(after, limit)),
    agents: agentMethods(runner, agents),
    drains: drainMethods(runner, drains, batches),
    limits: limitMethods(runner, limits),
    schedules: scheduleMethods(runner, schedules),
    transfer: transferMethods(runner, transfer),
    look: lookMethods(runner, look, batches),
    stats: statsMethods(runner, stats),
    failures: failureMethods(runner, failures),
    health: healthMethods(runner, health),
    causes: { ...causeMethods(runner, causes), reports: reportMethods(runner, causeReports) },
    encryption: encryptionMethods(runner, encryption),
    hooks: hookMethods(runner, hooks),
    testing: testingMethods(runner, testing, tasks),
    workflows: workflowMethods(runner, workflows, undo),
  };
}

function taskMethods(
  { run, write }: Runner,
  ops: Operations["tasks"],
  batches: Batches,
): Omit<TaskStore, "logs"> {
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
    cancel: (id, error, alone) => write(() => ops.cancel(id, error, alone)),
    retry: (id) => write(() => ops.retry(id)),
    purge: async (filter, limit, after, onKept = ignore) => {
      const all = await batches.all(() => write(() => ops.purge(filter, limit, after)));
      if (all) return all;
      const { matching, last } = await run(() => ops.purgeable(filter, limit, after));
      const each = (ids: readonly number[]) => write(() => ops.purgeAmong(filter, ids));
      return { purged: (await batches.each(idsOf(matching), each, onKept)).length, last };
    },
  };
}

/** BEGIN and COMMIT would take as long again as the statement: 6 µs on SQLite, two round trips on a server. */
function isOneStatement(tasks: readonly NewTask[]): boolean {
  const [task] = tasks;
  return tasks.length === 1 && task?.uniqueKey === null && !hasTexts(task);
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
    tasks: (ids) => (ids.length === 0 ? Promise.resolve([]) : run(() => ops.tasks(ids))),
    attempts: (versions) => (versions.length === 0 ? Promise.resolve([]) : run(() => ops.attempts(versions))),
    cancelErrors: (ids) => (ids.length === 0 ? Promise.resolve([]) : run(() => ops.cancelErrors(ids))),
  };
}

function drainMethods({ run, write }: Runner, ops: Operations["drains"], batches: Batches): DrainStore {
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
    handOver: async (sent, onKept = ignore) => {
      const all = await batches.all(() => write(() => ops.handOver(sent)));
      if (all) return all;
      const byId = new Map(sent.map((task) => [task.id, task]));
      const each = (ids: readonly number[]) =>
        write(() => ops.handedOver(ids.flatMap((id) => byId.get(id) ?? [])));
      const handed = new Set(await batches.each([...byId.keys()], each, onKept));
      return sent.map(({ id }) => handed.has(id));
    },
    settle: (id, outcome, retries) => write(() => ops.settle(id, outcome, retries)),
    expire: (queueName, within, limit) => write(() => ops.expire(queueName, within, limit)),
    remove: async (ids, onKept = ignore) =>
      (await batches.each(ids, (some) => write(() => ops.remove(some)), onKept)).length,
    forget: async (queueName, age, from, limit, onKept = ignore) => {
      const all = await batches.all(() => write(() => ops.forget(queueName, age, from, limit)));
      if (all) return all;
      const { own, next } = await run(() => ops.forgettable(queueName, age, from, limit));
      const each = (ids: readonly number[]) => write(() => ops.remove(ids));
      return { removed: (await batches.each(idsOf(own), each, onKept)).length, next };
    },
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
    putOff: (most) => run(() => ops.putOff(most)),
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
    list: (meant) => write(() => ops.list(meant)),
    define: (names, decide) => write(() => ops.define(names, decide)),
    change: (name, decide) => write(() => ops.change(name, decide)),
    remove: (name) => write(() => ops.remove(name)),
  };
}

/** The writes of workflows, by transactions of the store or inside of an app's. */
export function workflowWrites(
  write: <T>(op: () => Program<T>) => MaybePromise<T>,
  ops: Operations["workflows"],
  undo: Operations["undo"],
): WorkflowWrites {
  return {
    storeStep: (task, step) => write(() => ops.storeStep(task, step)),
    storeUndo: (task, name, state, error) => write(() => undo.storeUndo(task, name, state, error)),
    emit: (name, payload) => write(() => ops.emit(name, payload)),
    insertGroup: (group) => write(() => ops.insertGroup(group)),
    insertChain: (tasks) => write(() => ops.insertChain(tasks)),
  };
}

function workflowMethods(
  { run, write }: Runner,
  ops: Operations["workflows"],
  undo: Operations["undo"],
): WorkflowStore {
  return {
    writes: workflowWrites(write, ops, undo),
    steps: (taskId) => run(() => ops.steps(taskId)),
    firstSteps: (taskId, limit) => run(() => ops.firstSteps(taskId, limit)),
    lastActive: (steps) => run(() => ops.lastActive(steps)),
    waits: (taskIds) => run(() => ops.waits(taskIds)),
    openWaits: (taskIds, limit) => run(() => ops.openWaits(taskIds, limit)),
    firstWaits: (taskIds, limit) => run(() => ops.firstWaits(taskIds, limit)),
    lastWaiting: (waits) => run(() => ops.lastWaiting(waits)),
    waitingFor: (target, limit) => run(() => ops.waitingFor(target, limit)),
    write: (task, steps, children) => run((tries) => ops.write(task, steps, children, tries > 0)),
    forget: (task, names) => write(() => ops.forget(task, names)),
    keepEnds: (task, ends) => write(() => ops.keepEnds(task, ends)),
    wait: (task, waits, park) => write(() => ops.wait(task, waits, park)),
    endDue: (limit) => write(() => ops.endDue(limit)),
    repair: (after, limit) => write(() => ops.repair(after, limit)),
    pruneEvents: (age, limit) => write(() => ops.pruneEvents(age, limit)),
    children: (taskIds, limit) => run(() => ops.children(taskIds, limit)),
    retryFrom: (taskId, step) => write(() => ops.retryFrom(taskId, step)),
    hasUndos: (taskId) => run(() => undo.hasUndos(taskId)),
    undoRuns: (taskId) => run(() => undo.runs(taskId)),
    undoable: (runs, limit) => run(() => undo.undoable(runs, limit)),
    takeUndoable: (taskIds, workerId, most) => write(() => undo.take(taskIds, workerId, most)),
    letUndo: (task) => write(() => undo.letUndo(task)),
    undoAgain: (taskId) => write(() => undo.undoAgain(taskId)),
    groupCounts: (groupId) => run(() => ops.groupCounts(groupId)),
    groupOf: (taskId) => run(() => ops.groupOf(taskId)),
    members: (groupId, after, limit) => run(() => ops.members(groupId, after, limit)),
    addToGroup: (groupId, members) => write(() => ops.addToGroup(groupId, members)),
  };
}

function scheduleMethods({ run, write }: Runner, ops: Operations["schedules"]): ScheduleStore {
  return {
    list: (meant) => run(() => ops.list(meant)),
    define: (names, decide) => write(() => ops.define(names, decide)),
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

function lookMethods({ run, write }: Runner, ops: Operations["look"], batches: Batches): LookStore {
  return {
    areFew: (filter, most) => run(() => ops.areFew(filter, most)),
    listFew: (filter, limit, after, most, characters) =>
      run(() => ops.listFew(filter, limit, after, most, characters)),
    countFew: (filter, most) => run(() => ops.countFew(filter, most)),
    countRange: (filter, range) => run(() => ops.countRange(filter, range)),
    span: (after, rows) => run(() => ops.span(after, rows)),
    listRange: (filter, limit, range, characters) =>
      run(() => ops.listRange(filter, limit, range, characters)),
    list: (filter, limit, after, characters) => run(() => ops.list(filter, limit, after, characters)),
    get: (ids, characters) => run(() => ops.get(ids, characters)),
    texts: (filter, characters, range) => run(() => ops.texts(filter, characters, range)),
    edit: (id, change, generationId) => write(() => ops.edit(id, change, generationId)),
    retryEach: (ids) => write(() => ops.retryEach(ids)),
    cancelEach: (ids, error) => write(() => ops.cancelEach(ids, error)),
    deleteEach: (ids, onKept = ignore) =>
      batches.each(ids, (some) => write(() => ops.deleteEach(some)), onKept),
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
    takeMinute: () => run(() => ops.takeMinute()),
    writeDepths: (minute, depths) => run(() => ops.writeDepths(minute, depths)),
    read: (filter) => run(() => ops.read(filter)),
    hours: (time) => run(() => ops.hours(time)),
    counts: (from) => run(() => ops.counts(from)),
    totals: () => run(() => ops.totals()),
  };
}

/** As for statistics: of `add` and `fold`, nobody is notified. */
function failureMethods({ run }: Runner, ops: Operations["failures"]): FailureStore {
  return {
    add: (counted) => run(() => ops.add(counted)),
    fold: () => run(() => ops.fold()),
    counted: (from, func, most) => run(() => ops.counted(from, func, most)),
    open: (func, most) => run(() => ops.open(func, most)),
    openOf: (ids) => run(() => ops.openOf(ids)),
    known: (ids) => run(() => ops.known(ids)),
  };
}

function healthMethods({ run }: Runner, ops: Operations["health"]): HealthStore {
  return {
    backlog: (most, inAll) => run(() => ops.backlog(most, inAll)),
    sample: (status, most) => run(() => ops.sample(status, most)),
    depths: (inAll) => run(() => ops.depths(inAll)),
    drained: () => run(() => ops.drained()),
  };
}

function causeMethods({ run, write }: Runner, ops: Operations["causes"]): Omit<CauseStore, "reports"> {
  return {
    running: (most) => run(() => ops.running(most)),
    crashes: (within, most) => run(() => ops.crashes(within, most)),
    depths: (within) => run(() => ops.depths(within)),
    heads: (levels) => run(() => ops.heads(levels)),
    started: (most) => run(() => ops.started(most)),
    piles: (least, most) => run(() => ops.piles(least, most)),
    thresholds: () => run(() => ops.thresholds()),
    changeThresholds: (change) => write(() => ops.changeThresholds(change)),
    now: () => run(() => ops.now()),
  };
}

function reportMethods({ run, write }: Runner, ops: Operations["causeReports"]): CauseReportStore {
  return {
    take: async (reporter) => {
      // A process that stands by writes nothing.
      const left = await run(() => ops.left(reporter.name));
      if (left > 0) return left;
      return (await write(() => ops.take(reporter)))
        ? 0
        : Math.max(1, await run(() => ops.left(reporter.name)));
    },
    record: (reporter, found, endedAfter) => write(() => ops.record(reporter, found, endedAfter)),
    acknowledge: (report, reporter) => run(() => ops.acknowledge(report, reporter)),
    release: (name, reporter) => run(() => ops.release(name, reporter)),
  };
}

function encryptionMethods({ run, write }: Runner, ops: Operations["encryption"]): EncryptionStore {
  return {
    fingerprints: () => run(() => ops.fingerprints()),
    keepFingerprint: (keyId, fingerprint) => run(() => ops.keepFingerprint(keyId, fingerprint)),
    forgetOthers: (keyId) => write(() => ops.forgetOthers(keyId)),
    rewrite: (table, after, limit, change) => write(() => ops.rewrite(table, after, limit, change)),
    size: (table) => run(() => ops.size(table)),
  };
}

function hookMethods({ run, write }: Runner, ops: Operations["hooks"]): HookStore {
  return {
    take: async (workerId, runs, limit, except) => {
      // A look that finds none begins no transaction.
      const known = (await run(() => ops.functions(workerId))).filter(({ queueName, func }) =>
        runs(queueName, func),
      );
      return known.length === 0 ? [] : await write(() => ops.take(workerId, known, limit, except));
    },
    remove: (hook) => run(() => ops.remove(hook)),
    prune: (age) => run(() => ops.prune(age)),
  };
}

function testingMethods({ run }: Runner, ops: Operations["testing"], tasks: Operations["tasks"]): TestStore {
  return {
    list: (filter, limit, after) => run(() => tasks.list(filter, limit, after)),
    place: (task) => run(() => ops.place(task)),
  };
}
