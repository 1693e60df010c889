/**
 * Invariant: when a worker's machine vanishes from the network, its tasks start elsewhere within its lease and a second, also
 * those of a transaction in which it vanished. Nothing is lost or done twice: the functions of the vanished worker run to their
 * ends, and none of their outcomes is accepted. When the machine is back, its worker registers anew and works on.
 */
import { deepStrictEqual, ok } from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Entry } from "../../fixtures/event-log.ts";
import { type Child, Harness } from "../../fixtures/harness.ts";
import { chore, type Plan } from "../../fixtures/tasks.ts";
import type { Move } from "../audit.ts";
import { type Kind, openRaw } from "../backends/backend.ts";
import { demand } from "../checker.ts";
import { demandNoConflicts, reportsLoss } from "../conflicts.ts";
import type { History } from "../history.ts";
import { isCrash, Load, pidOf } from "../load.ts";
import { isFinish, key, keyOfEnded } from "../promises/finder.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";
import { Galera, noGalera } from "../servers/galera.ts";
import type { Network } from "../servers/network.ts";
import { OtherMachine } from "../servers/other-machine.ts";
import { noMariadb, OwnMariadb } from "../servers/own-mariadb.ts";
import { noPostgres, OwnPostgres } from "../servers/own-postgres.ts";
import { type OwnServer, onOwnServer } from "../servers/own-server.ts";

/** Milliseconds: no shorter than dbq lets an idle transaction live on the server. */
const lease = 5_000;

/** Milliseconds within which the tasks must start elsewhere. The figures show it; only a test that takes twice as long fails. */
const bound = lease + 1_000;

/** Milliseconds that both machines work together before the next round, at most. */
const together = 2_000;

/**
 * Milliseconds that the machine stays away after its tasks have started elsewhere, at most: in every other round so briefly
 * that these still run when its outcomes arrive. TCP repeats a packet 6.2 s after the first time, and then after 12.6 s.
 */
const away = { brief: 500, long: 2_000 };

/**
 * Milliseconds that some tasks take: less than a lease, so that they end while the machine is away, and long enough that they
 * run elsewhere when it is back, with the outcomes of the first run.
 */
const long = 4_000;

/** How many of them are enqueued at once, for both machines. */
const batch = 5;

/** Not "within": an app's own transaction keeps its locks for as long as the server's own limit says, if it has one. */
const plans: readonly Plan[] = ["return", "throwOnce", "return", "snoozeOnce"];

/** One time in which the machine was away. */
interface Absence {
  /** When its cable was taken out, and when it was put in again. */
  from: number;
  to: number;
  /** When each task had been claimed elsewhere that waited or that its worker held when it went away. */
  free: number;
  /** Whether a transaction of its worker was open. */
  inTransaction: boolean;
  /** How many of its connections the server still had then: it was told of no end. */
  connections: number;
}

/** A server, or a cluster, that is started for a trial. */
type Started = AsyncDisposable & Pick<OwnServer, "save"> & { url: string };

const scenario = (
  name: string,
  kinds: readonly Kind[],
  unable: (kind: Kind) => string | undefined,
  start: (network: Network, kind: Kind) => Promise<Started>,
): Scenario => ({
  name,
  about:
    "A worker's machine vanishes from the network under load, without a FIN: its tasks start elsewhere within its lease and a second, none of its outcomes is accepted afterwards, and it works on when it is back.",
  unit: "vanishings",
  amounts: { test: 1, sample: 2, chaos: 10 },
  bringsServer: kinds,
  unable: (kind) => OtherMachine.unable() ?? unable(kind),
  async run(trial) {
    await using machine = new OtherMachine();
    return await onOwnServer(
      () => start(machine.network, trial.kind),
      trial,
      ({ url }) => onMachines(url, machine, trial),
    );
  },
});

export const vanishedMachine = scenario(
  "vanished-machine",
  ["postgres", "mysql"],
  (kind) => (kind === "mysql" ? noMariadb() : noPostgres()),
  (network, kind) => (kind === "mysql" ? OwnMariadb.start(network) : OwnPostgres.start(undefined, network)),
);

export const vanishedFromGalera = scenario(
  "vanished-machine-galera",
  ["mysql"],
  noGalera,
  async (network) => {
    const cluster = await Galera.start(network);
    return Object.assign(cluster, { url: cluster.url(0) });
  },
);

async function onMachines(url: string, machine: OtherMachine, trial: Trial): Promise<Figure[]> {
  await using harness = await Harness.on(url, join(trial.harness.folder, "harness"));
  // Its files are removed with the trial's folder, which stays after a failure; its database with the server.
  harness.keep();
  const load = await Load.start(harness, {
    workers: 1,
    enqueuers: 1,
    // Not enough for all tasks: the other machine always has some.
    worker: { concurrency: 15, lease },
    enqueuing: { plans, pause: 150, longest: 400 },
  });
  const far = await Far.start(harness, machine);
  load.workers.push(far.worker);
  const absences: Absence[] = [];
  for (let done = 1; done <= trial.amount; done += 1) {
    await sleep(together * trial.random());
    absences.push(await far.goAway(trial, done % 2 === 1));
    trial.progress(done);
  }
  const history = await load.drain();
  const waits = nodesOf(url).length > 1 ? history.entries.filter(waitsAmong(absences)) : [];
  demand(history, {
    allowed: (entry) => (entry.pid === far.worker.pid && reportsCut(entry)) || waits.includes(entry),
    mayDie: () => false,
    unanswered: true,
  });
  demandNoConflicts({ ...history, entries: history.entries.filter((entry) => !waits.includes(entry)) });
  return [
    ...figures(history, far.worker, absences),
    { name: "reported waits for the locks of the vanished machine", value: waits.length },
  ];
}

/**
 * On a cluster a claim locks nothing, and so does not pass over locked rows either: a worker of the same node waits for those
 * of the open transaction until the server ends that.
 */
const waitsAmong =
  (absences: readonly Absence[]) =>
  ({ what, at, note }: Entry): boolean =>
    what === "error" &&
    /^settling and claiming: .*ER_LOCK_WAIT_TIMEOUT/.test(String(note)) &&
    absences.some(({ from, to, inTransaction }) => inTransaction && at >= from && at < to);

/** It reports that the server does not answer. */
const reportsCut = ({ what, note }: Entry) =>
  what === "error" && reportsLoss({ what: "refused", note: `order: ${note}` } as Entry);

/** The worker on the other machine. */
class Far {
  readonly worker: Child;
  readonly #harness: Harness;
  readonly #machine: OtherMachine;
  readonly #hold: string;

  private constructor(worker: Child, harness: Harness, machine: OtherMachine, hold: string) {
    [this.worker, this.#harness, this.#machine, this.#hold] = [worker, harness, machine, hold];
  }

  static async start(harness: Harness, machine: OtherMachine): Promise<Far> {
    const hold = join(harness.folder, "hold");
    const options = { concurrency: 10, lease };
    const how = { under: machine.under, script: "holding-worker.ts", env: { DBQ_HOLD: hold } };
    return new Far(await harness.worker(options, how), harness, machine, hold);
  }

  /** Takes the machine off the network until its tasks have started elsewhere, and waits until its worker works on. */
  async goAway({ kind, random }: Trial, inTransaction: boolean): Promise<Absence> {
    await this.#untilBusy(inTransaction);
    const from = this.#machine.vanish();
    rmSync(this.#hold, { force: true });
    const free = await this.#untilElsewhere(from);
    const connections = await this.#connections(kind);
    ok(connections > 0, "the server was told that the connections of the vanished machine have ended");
    await sleep((inTransaction ? away.brief : away.long) * random());
    const to = this.#machine.comeBack();
    await this.#untilBack(to);
    return { from, to, free, inTransaction, connections };
  }

  /** Waits until its worker runs a long task, and with `inTransaction` has a transaction open that has changed some. */
  async #untilBusy(inTransaction: boolean): Promise<void> {
    await this.#untilLong();
    const now = Date.now();
    if (inTransaction) {
      writeFileSync(this.#hold, "");
      await this.#harness.eventLog.until("holding", ({ at }) => at >= now);
    }
  }

  /** Enqueues long tasks until its worker has started one. */
  async #untilLong(): Promise<void> {
    const { queue, eventLog } = this.#harness;
    for (;;) {
      const calls = Array.from({ length: batch }, () => [chore, long, "return"] as const);
      const ids = await queue.enqueueTasks(calls);
      const starts = await Promise.all(ids.map((id) => eventLog.until("start", ({ task }) => task === id)));
      if (starts.some(({ pid }) => pid === this.worker.pid)) return;
    }
  }

  /** The condition for its worker, whose id is in this column. */
  #isIts(column: string): string {
    return `${column} like '%:${this.worker.pid}:%'`;
  }

  /**
   * Waits until others have claimed each task that waited, or that its worker held, and have removed its row. One that waited
   * may be locked by the open transaction. @returns when that was. @throws Error when it takes twice as long as is promised
   */
  async #untilElsewhere(from: number): Promise<number> {
    await using raw = await openRaw(this.#harness.database);
    const open = `status in ('pending', 'scheduled') or (status = 'running' and ${this.#isIts("worker_id")})`;
    const ask = () => raw.all<{ id: number }>(`select id from dbq_tasks where ${open}`);
    const row = `select id from dbq_workers where ${this.#isIts("id")}`;
    let left = await ask();
    while (left.length > 0 || (await raw.all(row)).length > 0) {
      const ids = left.map(({ id }) => id).join(", ");
      const took = Date.now() - from;
      ok(
        took < 2 * bound,
        `${took} ms after its machine vanished, others have not claimed these tasks, or not removed its worker: ${ids}`,
      );
      await sleep(20);
      const still = new Set((await ask()).map(({ id }) => id));
      left = left.filter(({ id }) => still.has(id));
    }
    return Date.now();
  }

  /** How many connections from its machine the server has, or all nodes of the cluster together. */
  async #connections(kind: Kind): Promise<number> {
    const { address } = this.#machine;
    const connections =
      kind === "postgres"
        ? `select pid from pg_stat_activity where client_addr = '${address}'`
        : `select id from information_schema.processlist where host like '${address}:%'`;
    let count = 0;
    for (const node of nodesOf(this.#harness.database)) {
      await using raw = await openRaw(node);
      count += (await raw.all(connections)).length;
    }
    return count;
  }

  /** Waits until its worker has completed a task after this moment. */
  async #untilBack(moment: number): Promise<void> {
    await this.#harness.eventLog.until("completed", ({ pid, at }) => pid === this.worker.pid && at >= moment);
  }
}

/** One URL for each host of a URL. */
function nodesOf(database: string): string[] {
  const [, before = "", hosts = "", after = ""] = /^(.*@)([^/]*)(\/.*)$/.exec(database) ?? [];
  return hosts.split(",").map((host) => `${before}${host}${after}`);
}

function figures(history: History, { pid }: Child, absences: readonly Absence[]): Figure[] {
  const { moves, tasks } = history;
  const finishes = moves.filter(isFinish).map(({ task }) => task);
  const sums = absences.map(({ connections }) => connections);
  return [
    { name: "vanishings", value: absences.length },
    { name: "in an open transaction", value: absences.filter(({ inTransaction }) => inTransaction).length },
    { name: "tasks", value: tasks.length },
    { name: "lost", value: tasks.length - new Set(finishes).size, most: 0 },
    { name: "finished twice", value: finishes.length - new Set(finishes).size, most: 0 },
    { name: "connections that the server kept meanwhile, at least", value: Math.min(...sums) },
    ...takenFigures(history, pid, absences),
    ...spread(
      "from link down until no task waits",
      absences.map(({ from, free }) => free - from),
      { max: bound },
    ),
    ...backFigures(history, pid, absences),
  ];
}

/** What became of the tasks that the vanished worker held. @throws Error when one of its outcomes was accepted */
function takenFigures({ entries, moves }: History, pid: number, absences: readonly Absence[]): Figure[] {
  const absenceAt = (at: number) => absences.find(({ from, to }) => at >= from && at < to);
  const rescues = moves.filter(isCrash);
  deepStrictEqual(
    rescues.filter((move) => pidOf(move) !== pid),
    [],
    "only the vanished worker is rescued",
  );
  const taken = rescues.filter(({ at }) => absenceAt(at));
  const attempts = new Set(taken.map(keyOfEnded));
  const own = entries.filter((entry) => entry.pid === pid && attempts.has(key(entry)));
  const keysOf = (what: string) => new Set(own.filter((entry) => entry.what === what).map(key));
  const [started, ended, lost] = [keysOf("start"), keysOf("end"), keysOf("lost")];
  const without = (others: ReadonlySet<string>) => [...started].filter((each) => !others.has(each));
  deepStrictEqual(without(ended), [], "each function of the vanished worker runs to its end");
  // It says so instead of "completed", "retrying" or "snoozed".
  deepStrictEqual(without(lost), [], "each outcome of the vanished worker is refused");
  const took = taken.map((move) => startElsewhere(entries, pid, move) - (absenceAt(move.at)?.from ?? 0));
  return [
    { name: "tasks taken from the vanished worker", value: taken.length },
    { name: "outcomes refused", value: started.size },
    // A heartbeat that was on its way when the link went down arrives after it is up, and names a session that has ended.
    { name: "tasks taken from it while it was there", value: rescues.length - taken.length, most: 0 },
    ...spread("from link down to start elsewhere", took, { max: bound }),
  ];
}

/** When a task started elsewhere after it was taken from the worker. */
const startElsewhere = (entries: readonly Entry[], pid: number, { task, generation }: Move): number =>
  entries.find(
    (entry) =>
      entry.what === "start" &&
      entry.task === task &&
      entry.pid !== pid &&
      (entry.generation ?? 0) > (generation ?? 0),
  )?.at ?? Number.POSITIVE_INFINITY;

/** How soon the worker was back. @throws Error when it did not register each time */
function backFigures({ entries, workerMoves }: History, pid: number, absences: readonly Absence[]): Figure[] {
  const came = workerMoves.filter((move) => move.came === 1 && pidOf(move) === pid);
  const starts = entries.filter((entry) => entry.what === "start" && entry.pid === pid);
  const until = (signs: readonly { at: number }[]) =>
    absences.map(({ to }) => (signs.find(({ at }) => at >= to)?.at ?? Number.POSITIVE_INFINITY) - to);
  const registered = until(came);
  ok(registered.every(Number.isFinite), "the worker registers anew each time");
  return [
    ...spread("from link up to registered", registered),
    ...spread("from link up to its next start", until(starts)),
  ];
}
