/**
 * The health of a queue, for `doctor`, `stats`, metrics and the dashboard: facts about its database, its queues and workers,
 * and the tasks that no worker takes. Reads the database and changes nothing.
 */

import { readOptions, wrong } from "../../base/options/validators.ts";
import type { PendingTasks } from "../../base/tasks/pending.ts";
import { sharingAmong } from "../../base/tasks/registry.ts";
import type { WorkerHealth } from "../../base/tasks/worker-health.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Diagnosis, TaskCount } from "../../store.ts";
import type { TaskStatus } from "../../task.ts";
import type { Feature } from "../../worker/feature.ts";
import { checkWorkers, lookAtWorkers } from "../../worker/liveness.ts";
import type { Cause } from "../causes/methods.ts";
import type { DrainLag } from "../drain/contract.ts";
import type { LimitState, PutOffCount } from "../limits/contract.ts";
import type { LimitInfo } from "../limits/methods.ts";
import { limitInfoOf, pausesAmong } from "../operate/pauses.ts";
import { unsetAmong } from "../operate/unset-names.ts";
import { internalsOf, type Queue } from "../queue.ts";
import type { FullRequestStore } from "../store.ts";
import { mostCountedWaits, type TasksOfQueue } from "../workflows/contract.ts";
import { mostHealthNames } from "./contract.ts";
import type {
  BriefHealth,
  BriefLook,
  Health,
  HealthLook,
  HealthOfQueue,
  InspectMethods,
  UnclaimedTasks,
} from "./methods.ts";
import { findUnclaimed, type Waiting, withKeys } from "./unclaimed.ts";

/** Options of `inspectQueue`. */
export interface InspectOptions {
  /**
   * Names of all functions that the workers register. With them, a task of any other function is reported at once; without
   * them, only what workers with free slots have left pending is.
   */
  functions?: readonly string[];
}

/** What `inspectQueue` found. */
export interface QueueHealth {
  /** Facts about the database, with a warning where something is wrong. */
  database: Diagnosis[];
  /** All registered workers, oldest first. */
  workers: WorkerHealth[];
  /** The error that writers get while `dbq move` has frozen this database; `null`: it takes tasks. */
  frozen: string | null;
  /** Tasks that wait for something other than their turn; none while the database is `frozen`. */
  unclaimed: UnclaimedTasks[];
  /** The tasks that wait for a drain, for each queue that a drain carries or has carried. */
  drains: DrainLag[];
  /** The limits, pauses and throttles. */
  limits: LimitInfo[];
  /** Names in `uses` that no limit has, of the registered ones among the `functions`. */
  unsetLimits: { func: string; name: string }[];
  /** Names that running tasks use, or whose rate has put tasks off, and that no limit has. */
  unsetNames: string[];
  /** The shared names that have a limit, and that neither the `functions` nor a running task uses: they may be misspelt. */
  unusedNames: string[];
  /** The functions that have a limit or a pause, and are none of the `functions`: their names may be misspelt. */
  unregisteredLimits: string[];
  /** The causes that `queue.listCauses()` lists, worst first. They are found by the same look at workers and tasks as the rest. */
  causes: Cause[];
}

/**
 * Inspects a queue: its database, its workers, and the tasks that no worker takes. Unlike `queue.health()`, it waits until it is
 * proven whether a silent worker is dead, and reads facts about the database itself.
 * @throws DatabaseError; TypeError for wrong options
 */
export async function inspectQueue(queue: Queue, options?: InspectOptions): Promise<QueueHealth> {
  const { functions } = readOptions<InspectOptions>(options, "inspectQueue", { functions: names });
  const { store, shared } = internalsOf(queue);
  const database = await queue.diagnose();
  const workers = await checkWorkers(store);
  const states = await store.limits.list();
  const tasks = await lookAtTasks(store, seenOf(states));
  const frozen = database.find(({ name }) => name === "move")?.warning ?? null;
  const lag = await store.drains.lag();
  const unclaimed =
    frozen === null ? await withKeys(findUnclaimed(tasks, workers, functions), store.health) : [];
  const drains = lag.filter(({ active, unsent }) => active || unsent > 0);
  const limits = states.map(limitInfoOf);
  const inUse = await store.limits.namesInUse();
  return {
    database,
    workers,
    frozen,
    unclaimed,
    drains,
    limits,
    unsetLimits: unsetOf(functions ?? [], limits),
    unsetNames: unsetAmong(inUse, limits),
    unusedNames: functions === undefined ? [] : unusedAmong(functions, inUse, limits),
    unregisteredLimits: functions === undefined ? [] : unregisteredAmong(functions, limits),
    causes: await shared.causesOf({
      health: await healthBy(store, tasks, workers),
      pending: tasks.backlog,
      limits: states,
      database,
    }),
  };
}

function unsetOf(
  functions: readonly string[],
  limits: readonly LimitInfo[],
): { func: string; name: string }[] {
  return sharingAmong(functions).flatMap(({ name: func, uses = [] }) =>
    unsetAmong(uses, limits).map((name) => ({ func, name })),
  );
}

function unusedAmong(
  functions: readonly string[],
  inUse: readonly string[],
  limits: readonly LimitInfo[],
): string[] {
  const used = new Set([...inUse, ...sharingAmong(functions).flatMap(({ uses = [] }) => uses)]);
  const shared = limits.flatMap(({ target }) => (typeof target === "string" ? [target] : []));
  return shared.filter((name) => !used.has(name));
}

function unregisteredAmong(functions: readonly string[], limits: readonly LimitInfo[]): string[] {
  const limited = limits.flatMap(({ target }) =>
    typeof target !== "string" && "func" in target ? [target.func] : [],
  );
  return [...new Set(limited)].filter((func) => !functions.includes(func));
}

function names(value: unknown, name: string): readonly string[] {
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value;
  throw wrong(name, "an array of function names", value);
}

// ---- queue.health() ------------------------------------------------------------------------------

/**
 * The most tasks that are counted. Pending ones of one function, and of all functions: an index alone tells how many there are,
 * 40,000 in about 10 ms where Postgres has not vacuumed. Those in one other status: their rows are read, 5,000 in about 8 ms.
 */
const most = { ofFunction: 10_000, pending: 40_000, other: 5_000 };

interface Tasks extends Waiting {
  failed: readonly TaskCount[];
  waits: { queues: readonly TasksOfQueue[]; more: boolean };
  putOff: readonly PutOffCount[];
}

type TaskStores = Pick<FullRequestStore, "health" | "limits" | "workflows">;

type SeenLimits = Pick<Waiting, "limits" | "shared">;

/** What holds tasks back, without the tasks that each of them concerns: those of shared names alone are counted. */
async function lookAtLimits({ limits }: TaskStores): Promise<SeenLimits> {
  const records = await limits.records();
  const shared = records.some(({ kind }) => kind === "name") ? await limits.list("name") : [];
  return { limits: records, shared };
}

/** The same by limits whose tasks were counted, as causes need them. */
const seenOf = (limits: readonly LimitState[]): SeenLimits => ({
  limits,
  shared: limits.filter(({ kind }) => kind === "name"),
});

/** One query after another: a look takes one connection of the queue's pool, not all. */
async function lookAtWaiting({ health }: TaskStores, seen: SeenLimits): Promise<Waiting> {
  return {
    backlog: await health.backlog(most.ofFunction, most.pending),
    running: await health.sample("running", most.other),
    scheduled: [],
    drained: await health.drained(),
    ...seen,
  };
}

async function lookAtTasks(store: TaskStores, seen: SeenLimits): Promise<Tasks> {
  return {
    ...(await lookAtWaiting(store, seen)),
    scheduled: await store.health.sample("scheduled", most.other),
    waits: await store.workflows.countWaits(mostCountedWaits),
    failed: await store.health.sample("failed", most.other),
    putOff: await store.limits.putOff(most.other),
  };
}

/** The answers of `queue.health()` and `queue.listCauses()` by one look at workers and tasks. @throws DatabaseError */
export async function healthWithCauses(queue: Queue): Promise<{ health: Health; causes: Cause[] }> {
  const { shared } = internalsOf(queue);
  const look = await shared.healthLook();
  return { health: look.health, causes: await shared.causesOf(look) };
}

/** Gives a queue `health`. */
export function health(queue: CoreQueue): Feature {
  const { store } = internalsOf(queue);
  const reading = store.requests ?? store;
  const healthLook = () => lookAt(reading);
  const briefLook = () => lookBriefly(reading);
  const methods: Pick<InspectMethods, "health"> = {
    health: async () => {
      const workers = await lookAtWorkers(reading);
      return await healthBy(reading, await lookAtTasks(reading, await lookAtLimits(reading)), workers);
    },
  };
  return { methods, shared: { healthLook, briefLook } };
}

type Stores = Parameters<typeof lookAtWorkers>[0] & TaskStores;

/** Without rows of scheduled and failed tasks: 10,000 of them take about 20 ms. */
async function lookBriefly(store: Stores): Promise<BriefLook> {
  const workers = await lookAtWorkers(store);
  const limits = await store.limits.list();
  const tasks = await lookAtWaiting(store, seenOf(limits));
  const ofLimits = tasks.limits.filter(({ kind }) => kind === "queue").map(({ name }) => name);
  const names = new Set([...tasks.backlog.map(({ queueName }) => queueName), ...ofLimits]);
  const queues = [...names].sort().map((name) => ({ name, ...waitingIn(name, tasks) }));
  return { health: { queues, ...(await whoWorks(store, tasks, workers)) }, pending: tasks.backlog, limits };
}

/** The workers, and what waits for none of them. */
const whoWorks = async (
  store: TaskStores,
  tasks: Waiting,
  workers: WorkerHealth[],
): Promise<Omit<BriefHealth, "queues">> => ({
  workers,
  deadWorkers: workers.filter(({ liveness }) => liveness !== "alive"),
  unservedFunctions: await withKeys(findUnclaimed(tasks, workers, undefined), store.health),
  pauses: pausesAmong(tasks.limits),
});

async function lookAt(store: Stores): Promise<HealthLook> {
  const workers = await lookAtWorkers(store);
  const limits = await store.limits.list();
  const tasks = await lookAtTasks(store, seenOf(limits));
  return { health: await healthBy(store, tasks, workers), pending: tasks.backlog, limits };
}

const healthBy = async (store: TaskStores, tasks: Tasks, workers: WorkerHealth[]): Promise<Health> => ({
  queues: namesOf(tasks, workers).map((name) => healthOf(name, tasks, workers)),
  ...(queuesIn(tasks.backlog) < mostHealthNames ? {} : { moreQueues: true as const }),
  ...(await whoWorks(store, tasks, workers)),
});

function namesOf(tasks: Tasks, workers: readonly WorkerHealth[]): string[] {
  const { backlog, running, scheduled, failed, waits } = tasks;
  const ofTasks = [backlog, running, scheduled, failed, tasks.putOff, waits.queues]
    .flat()
    .map(({ queueName }) => queueName);
  const ofLimits = tasks.limits.filter(({ kind }) => kind === "queue").map(({ name: queue }) => queue);
  return [...new Set([...ofTasks, ...ofLimits, ...workers.flatMap(({ queueNames }) => queueNames)])].sort();
}

function healthOf(name: string, tasks: Tasks, workers: readonly WorkerHealth[]): HealthOfQueue {
  const own = tasks.backlog.filter(({ queueName }) => queueName === name);
  const alive = workers.filter(({ liveness }) => liveness === "alive");
  const counted = ["scheduled", "running", "failed"] as const;
  const atLeast: TaskStatus[] = counted.filter((status) => total(tasks[status]) >= most.other);
  if (own.some(({ more }) => more) || own.length >= mostHealthNames) atLeast.unshift("pending");
  const [scheduled, running, failed] = counted.map((status) =>
    total(tasks[status].filter(({ queueName }) => queueName === name)),
  ) as [number, number, number];
  const waiting = tasks.waits.queues.find(({ queueName }) => queueName === name)?.tasks ?? 0;
  if (tasks.waits.more) atLeast.push("waiting");
  const putOff = tasks.putOff.find(({ queueName }) => queueName === name);
  const records = tasks.limits.filter((record) => record.kind === "queue" && record.name === name);
  const limits = records.filter(({ concurrency, rate }) => concurrency !== null || rate !== null);
  return {
    name,
    pending: own.reduce((sum, { pending }) => sum + pending, 0),
    // The two samples may hold different tasks.
    scheduled: Math.max(scheduled, putOff?.count ?? 0),
    ...{ running, waiting, failed, atLeast },
    putOff: putOff?.count ?? 0,
    putOffSince: putOff === undefined ? null : new Date(putOff.since),
    ...waitingIn(name, tasks),
    limits: limits.map(({ concurrency, rate }) => ({ concurrency, rate })),
    workers: alive.filter(({ queueNames }) => queueNames.includes(name)).length,
  };
}

/** How long the tasks of a queue have waited, and since when it is paused. */
function waitingIn(
  name: string,
  { backlog, limits }: Waiting,
): Pick<HealthOfQueue, "oldestPendingAge" | "pausedAt"> {
  const own = backlog.filter(({ queueName }) => queueName === name);
  const ages = own.flatMap(({ oldestPendingAge }) => oldestPendingAge ?? []);
  const paused = limits.find(
    (record) => record.kind === "queue" && record.name === name && record.pausedAt !== null,
  );
  return {
    oldestPendingAge: ages.length === 0 ? null : Math.max(...ages),
    pausedAt: paused === undefined || paused.pausedAt === null ? null : new Date(paused.pausedAt),
  };
}

const queuesIn = (backlog: readonly PendingTasks[]): number =>
  new Set(backlog.map(({ queueName }) => queueName)).size;

const total = (counts: readonly TaskCount[]): number => counts.reduce((sum, { count }) => sum + count, 0);
