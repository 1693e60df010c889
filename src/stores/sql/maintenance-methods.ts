/** The methods of a store that change many rows for maintenance: each goes on around a row that the database refuses to change. */
import { mapById } from "../../base/values/group-by.ts";
import type { Crash, OnKept, Promoted, TaskVersion, WorkerStore } from "../../store.ts";
import { type Batches, PassedOver } from "./batches.ts";
import type { ExpiryOperations } from "./expiry.ts";
import type { MaintenanceOperations } from "./maintenance.ts";
import type { Runner } from "./program.ts";
import { RetentionPruning } from "./removal.ts";

type OnCrashes = ((crashes: readonly Crash[]) => void) | undefined;
type Frees = (charged: Crash[], among?: readonly number[]) => Promise<number | "busy">;

const ignore = () => undefined;

const sumOf = (amounts: readonly number[]): number => amounts.reduce((sum, amount) => sum + amount, 0);

/** The shorter of two waits. Undefined: there is none. */
const sooner = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);

export function maintenanceMethods(
  runner: Runner,
  ops: MaintenanceOperations,
  expiry: ExpiryOperations,
  batches: Batches,
): Omit<WorkerStore, "keepAlive" | "settleAndClaim" | "progress" | "fillDefaults" | "log" | "freeKeys"> {
  const { run, write } = runner;
  const retention = new RetentionPruning(runner, ops, batches);
  const around = new Around(runner, ops, expiry, batches);
  return {
    register: (worker) => write(() => ops.register(worker)),
    resize: (workerId, concurrency) => write(() => ops.resize(workerId, concurrency)),
    unregister: (workerId, onKept = ignore) => around.unregister(workerId, onKept),
    workers: () => run(() => ops.workers()),
    heartbeat: (workerId) => write(() => ops.beat(workerId)),
    heldBy: (workerId) => run(() => ops.heldBy(workerId)),
    rescue: (workerId, beat, how, onCrashes, onKept = ignore) =>
      around.rescue(workerId, beat, how, onCrashes, onKept),
    rescueOrphans: (age, onCrashes, onKept = ignore) => around.rescueOrphans(age, onCrashes, onKept),
    promote: (limit, onKept = ignore) => around.promote(limit, onKept),
    prune: (ages, limit, onKept = ignore) => retention.prune(ages, limit, onKept),
  };
}

class Around {
  readonly #run: Runner["run"];
  readonly #write: Runner["write"];
  readonly #ops: MaintenanceOperations;
  readonly #expiry: ExpiryOperations;
  readonly #batches: Batches;
  readonly #passed = new PassedOver();

  constructor(
    { run, write }: Runner,
    ops: MaintenanceOperations,
    expiry: ExpiryOperations,
    batches: Batches,
  ) {
    this.#run = run;
    this.#write = write;
    this.#ops = ops;
    this.#expiry = expiry;
    this.#batches = batches;
  }

  async promote(limit: number, onKept: OnKept): Promise<Promoted> {
    const look = () => this.#run(() => this.#ops.nextDue(this.#passed.ids()));
    const { nextExpiry, ...next } = await look();
    const [isDue, isExpired] = [next.nextDue === 0, nextExpiry === 0];
    if (!isDue && !isExpired) return { promoted: 0, ...next, nextDue: sooner(next.nextDue, nextExpiry) };
    // First: a task that has expired is not to become pending.
    const expired = isExpired ? await this.#expire(limit, onKept) : 0;
    const promoted = isDue ? await this.#promote(limit, onKept) : 0;
    const { nextExpiry: expiry, ...then } = await look();
    return {
      promoted,
      ...(expired > 0 && { expired }),
      ...then,
      nextDue: sooner(then.nextDue, expiry),
    };
  }

  async #promote(limit: number, onKept: OnKept): Promise<number> {
    const all = () => this.#write(() => this.#ops.promote(limit, this.#passed.ids()));
    return (await this.#batches.all(all)) ?? (await this.#promoteEach(limit, onKept));
  }

  async #expire(limit: number, onKept: OnKept): Promise<number> {
    const [ops, passed] = [this.#expiry, this.#passed.ids()];
    const all = await this.#batches.all(() => this.#write(() => ops.end(limit, passed)));
    if (all !== undefined) return all;
    const overdue = await this.#run(() => ops.overdue(limit, passed));
    const each = async (ids: readonly number[]) => [await this.#write(() => ops.end(limit, passed, ids))];
    return sumOf(await this.#batches.each(overdue, each, this.#passed.noting(onKept)));
  }

  async #promoteEach(limit: number, onKept: OnKept): Promise<number> {
    const due = await this.#run(() => this.#ops.due(limit, this.#passed.ids()));
    const each = (some: readonly TaskVersion[]) => this.#write(() => this.#ops.promoteThese(some));
    return (await this.#eachVersion(due, each, this.#passed.noting(onKept))).filter(Boolean).length;
  }

  #eachVersion<A>(
    versions: readonly TaskVersion[],
    act: (some: readonly TaskVersion[]) => Promise<readonly A[]>,
    onKept: OnKept,
  ): Promise<A[]> {
    const byId = mapById(versions);
    const of = (ids: readonly number[]) => ids.map((id) => byId.get(id) as TaskVersion);
    return this.#batches.each([...byId.keys()], (ids) => act(of(ids)), onKept);
  }

  /** A task that the worker cannot give back runs on without a worker: another one looks for those. */
  async unregister(workerId: string, onKept: OnKept): Promise<number> {
    const [ops, write] = [this.#ops, this.#write];
    const all = await this.#batches.all(() => write(() => ops.unregister(workerId)));
    if (all !== undefined) return all;
    const held = (await this.#run(() => ops.heldBy(workerId))).map(({ id }) => id);
    const each = async (ids: readonly number[]) => [await write(() => ops.handBack(workerId, ids))];
    const released = await this.#batches.each(held, each, onKept);
    await write(() => ops.leave(workerId));
    return sumOf(released);
  }

  async rescue(
    workerId: string,
    beat: number,
    how: string | undefined,
    onCrashes: OnCrashes,
    onKept: OnKept,
  ): Promise<number | "busy"> {
    const [ops, write] = [this.#ops, this.#write];
    const rescue: Frees = (charged, among) => write(() => ops.rescue(workerId, beat, how, charged, among));
    const all = await this.#batches.all(() => telling(onCrashes, rescue));
    if (all !== undefined) return all;
    const held = (await this.#run(() => ops.heldBy(workerId))).map(({ id }) => id);
    const kept: number[] = [];
    const note = this.#passed.noting((task) => {
      kept.push(task.id);
      onKept(task);
    });
    const freed = await this.#freeEach(held, rescue, onCrashes, note);
    await write(() => ops.forgetDead(workerId, beat, kept));
    return freed;
  }

  async rescueOrphans(age: number, onCrashes: OnCrashes, onKept: OnKept): Promise<number> {
    const [ops, write, passed] = [this.#ops, this.#write, this.#passed.ids()];
    const rescue = (charged: Crash[], among?: readonly number[]) =>
      write(() => ops.rescueOrphans(age, charged, passed, among));
    const all = await this.#batches.all(() => telling(onCrashes, rescue));
    if (all !== undefined) return all;
    const found = await this.#run(() => ops.orphans(age, passed));
    return await this.#freeEach(found, rescue, onCrashes, this.#passed.noting(onKept));
  }

  async #freeEach(
    ids: readonly number[],
    frees: Frees,
    onCrashes: OnCrashes,
    onKept: OnKept,
  ): Promise<number> {
    const each = async (some: readonly number[]) => {
      const freed = await telling(onCrashes, (charged) => frees(charged, some));
      return freed === "busy" ? [] : [freed];
    };
    return sumOf(await this.#batches.each(ids, each, onKept));
  }
}

/** Calls `onCrashes` once the rescue is committed. */
async function telling<T>(onCrashes: OnCrashes, rescue: (charged: Crash[]) => Promise<T>): Promise<T> {
  const charged: Crash[] = [];
  const freed = await rescue(charged);
  if (charged.length > 0) onCrashes?.(charged);
  return freed;
}
