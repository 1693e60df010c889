/** Agents of one Manager, beside one worker with as many slots, on Postgres. */
import { type Benchmark, type Contender, type Figures, programBeside, type Settings } from "../benchmark.ts";
import { type Child, type Start, withChildren } from "../processes/children.ts";
import { sharedNow, sleep } from "../processes/clock.ts";
import { percentile } from "../processes/percentile.ts";
import { type Connection, settle, withConnection } from "./connection.ts";
import { noServer, withDatabase } from "./databases.ts";
import type { ManagerCommands, ManagerConfig } from "./manager-process.ts";
import type { RunnerCommands, RunnerConfig } from "./runner-process.ts";
import type { Usage } from "./usage.ts";

const agents = 4;
const slots = 25;
const idleAgents = 200;
/** Tasks that are run before the measured ones. */
const warmUp = 5_000;
/** Milliseconds from the start of the idle agents that do not count. */
const settling = 3_000;

/** What claims for the runners: a Manager, or the runner itself. */
type Claimer = Child<ManagerCommands> | undefined;

type Kind = RunnerConfig["kind"];

function measureOn(kind: Kind): (settings: Settings) => Promise<Figures> {
  return (settings) =>
    withDatabase("postgres", (url) =>
      withConnection(url, async (connection) => {
        const busy = await withChildren((start) => measureBusy(kind, { url, connection, settings, start }));
        if (kind === "worker") return busy;
        return { ...busy, idle: await withChildren((start) => measureIdle(url, settings, start)) };
      }),
    );
}

interface Measuring {
  url: string;
  connection: Connection;
  settings: Settings;
  start: Start;
}

async function measureBusy(kind: Kind, measuring: Measuring): Promise<Figures> {
  const { url, settings, start } = measuring;
  const { openQueue, remoteTask } = await import("dbq-ts");
  await using queue = await openQueue(url);
  const work = remoteTask<(n: number) => number>("work");
  const enqueue = async (count: number) => {
    for (let left = count; left > 0; left -= 1_000)
      await queue.enqueueTasks(Array.from({ length: Math.min(left, 1_000) }, () => [work, -1] as const));
    await settle(url);
  };
  const manager = kind === "agent" ? await startManager(url, start) : undefined;
  const runners = await startRunners(kind, url, manager, start);
  await enqueue(warmUp);
  await drain(measuring, runners, manager);
  await enqueue(settings.tasks ?? (settings.quick ? 5_000 : 50_000));
  const drained = await drain(measuring, runners, manager);
  await Promise.all(runners.map((runner) => runner.ask("start")));
  const called: number[] = [];
  const written: number[] = [];
  for (let n = 0; n < (settings.quick ? 50 : 500); n += 1) {
    await sleep(5 + 25 * Math.random());
    called[n] = sharedNow();
    await queue.enqueueTask(work, n);
    written[n] = sharedNow();
  }
  await sleep(1_000);
  return { ...drained, ...delays(await startsOf(runners), called, written) };
}

async function startManager(url: string, start: Start): Promise<Child<ManagerCommands>> {
  const config: ManagerConfig = { url };
  return await start<ManagerCommands>(programBeside(import.meta.url, "manager-process"), config);
}

/** One worker with as many slots as all agents have together. */
async function startRunners(kind: Kind, url: string, manager: Claimer, start: Start) {
  const place = manager ? await manager.ask("place") : { url, token: "" };
  const config: RunnerConfig = { kind, ...place, count: 1, slots: kind === "agent" ? slots : agents * slots };
  return await Promise.all(
    Array.from({ length: kind === "agent" ? agents : 1 }, () =>
      start<RunnerCommands>(programBeside(import.meta.url, "runner-process"), config),
    ),
  );
}

/** From the first claim to the last settle, by the database's clock. The runners are stopped before and afterwards. */
async function drain(
  { connection }: Measuring,
  runners: readonly Child<RunnerCommands>[],
  manager: Claimer,
): Promise<Figures> {
  const from = await connection.number("select count(*) from dbq_tasks where status = 'completed'");
  const usages = () =>
    Promise.all((manager ? [manager, ...runners] : runners).map((one) => one.ask("usage")));
  const before = await usages();
  await Promise.all(runners.map((runner) => runner.ask("start")));
  const unfinished = "select count(*) from dbq_tasks where status in ('pending', 'running')";
  while ((await connection.number(unfinished)) > 0) await sleep(100);
  const after = await usages();
  await Promise.all(runners.map((runner) => runner.ask("stop")));
  const took = `select extract(epoch from max(finished_at) - min(started_at)) from
    (select started_at, finished_at from dbq_tasks where status = 'completed' order by id offset ${from}) as measured`;
  const count = (await connection.number("select count(*) from dbq_tasks where status = 'completed'")) - from;
  const cpu = after.reduce((sum, { cpu: used }, i) => sum + used - (before[i]?.cpu ?? 0), 0);
  return { "tasks/s": count / (await connection.number(took)), CPU: (1_000 * cpu) / count };
}

async function startsOf(runners: readonly Child<RunnerCommands>[]): Promise<number[]> {
  const all: number[] = [];
  for (const runner of runners) for (const [n, at] of await runner.ask("starts")) all[n] = at;
  return all;
}

function delays(starts: readonly number[], called: readonly number[], written: readonly number[]): Figures {
  if (Object.keys(starts).length !== called.length) throw new Error("some tasks never started");
  const since = (stamps: readonly number[]) => starts.map((at, n) => at - (stamps[n] ?? Number.NaN));
  return {
    "start p50": percentile(since(written), 0.5),
    "start p99": percentile(since(written), 0.99),
    "start p50 from the call": percentile(since(called), 0.5),
    "start p99 from the call": percentile(since(called), 0.99),
  };
}

/** The CPU of a Manager whose agents wait for tasks, in percent of a core. */
async function measureIdle(url: string, { quick }: Settings, start: Start): Promise<number> {
  const manager = await startManager(url, start);
  const config: RunnerConfig = { kind: "agent", ...(await manager.ask("place")), count: idleAgents, slots };
  const runner = await start<RunnerCommands>(programBeside(import.meta.url, "runner-process"), config);
  await runner.ask("start");
  await sleep(settling);
  const before: Usage = await manager.ask("usage");
  await sleep(quick ? 5_000 : 30_000);
  const after: Usage = await manager.ask("usage");
  return (100 * (after.cpu - before.cpu)) / (after.at - before.at);
}

const contender = (name: string, kind: Kind): Contender => ({
  name,
  missing: noServer("postgres"),
  measure: measureOn(kind),
});

export const managers: Benchmark = {
  name: "managers",
  title: "Postgres: agents of one Manager, beside a worker",
  about:
    "A queue of 50,000 no-op tasks is run by 4 agents with 25 slots each, over HTTP on the loopback, and by one worker with 100 slots. " +
    "CPU is that of the Manager and all agents for one task, without the server's. Then one task is enqueued every 5 to 30 ms (at random): " +
    "milliseconds from the moment the enqueue resolved, or was called, to the first line of the function. At last 200 agents wait for " +
    "tasks for 30 s: the CPU of their Manager.",
  on: "postgres",
  once: true,
  figures: [
    { name: "tasks/s", unit: "tasks/s", better: "higher", goals: [{ must: 5_000, aim: 8_000 }] },
    { name: "CPU", unit: "µs a task", better: "lower" },
    { name: "start p50", unit: "ms", better: "lower" },
    { name: "start p99", unit: "ms", better: "lower" },
    { name: "start p50 from the call", unit: "ms", better: "lower", goals: [{ must: 5, aim: 3 }] },
    { name: "start p99 from the call", unit: "ms", better: "lower" },
    { name: "idle", unit: "% of a core", better: "lower", goals: [{ must: 2, aim: 1 }] },
  ],
  contenders: [contender("dbq", "agent"), contender("worker", "worker")],
};
