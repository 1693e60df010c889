/** One drain of the model, from its registration to its end or death: the real pump, with a broker in memory. */
import assert from "node:assert/strict";
import { drainPrefix, messageId, readMessageId } from "../../src/base/tasks/drained.ts";
import { DatabaseError } from "../../src/errors.ts";
import { type ReadDrainOptions, readDrainOptions } from "../../src/features/drain/options.ts";
import { Pump, type PumpHost } from "../../src/features/drain/pump.ts";
import type { DrainAnswer, DrainMessage } from "../../src/features/drain/target.ts";
import { Wakeups } from "../../src/queue/wakeups.ts";
import type { SettleAndClaim, SettleAndClaimResult } from "../../src/store.ts";
import { newWorker } from "../conformance/arrange.ts";
import type { DrainModel } from "./drain-model.ts";
import type { RealStore } from "./real-store.ts";

/**
 * What happens at one send. `is away`: the broker takes nothing. Otherwise it has taken the messages; `dies`: the drain's process
 * ends; `stops`: the drain stops without grace; `loses`: the answer is lost; `refuses`: every third task is refused.
 */
export type Ending = "answers" | "refuses" | "is away" | "loses" | "stops" | "dies";

export interface Plan {
  ending: Ending;
  /** At which send, counted from 0. */
  at: number;
  batch: number;
  ordered: boolean;
}

const answerNever = () => new Promise<never>(() => undefined);

export class DrainRun {
  readonly #model: DrainModel;
  readonly #real: RealStore;
  readonly #plan: Plan;
  readonly #origin: string;
  readonly #workerId: string;
  readonly #options: ReadDrainOptions;
  /** The tasks that were sent, and whose answers are not written down. */
  readonly #open = new Set<number>();
  #sends = 0;
  #hasCarried = false;
  #pump: Pump | undefined;
  #hasDied = false;
  #hasStopped = false;
  /** A look that failed before a send has handed the tasks back: the next poll claims them. */
  #mustPoll = false;
  /** What the model found wrong: the pump takes it for an error of the broker or the database. */
  #wrong: unknown;
  /** What the drain has asked of the database: a statement that was sent is done, though its drain has died. */
  readonly #asked: Promise<unknown>[] = [];
  #over: () => void = () => undefined;

  constructor(model: DrainModel, real: RealStore, origin: string, plan: Plan) {
    this.#origin = origin;
    model.drains += 1;
    this.#model = model;
    this.#real = real;
    this.#plan = plan;
    this.#workerId = `${drainPrefix}elsewhere:1:${model.drains}`;
    const to = {
      name: "memory",
      limits: { count: 2, bytes: 1_000_000 },
      send: (messages: readonly DrainMessage[]) => this.#send(messages),
      close: async () => undefined,
    };
    const ordered = plan.ordered ? { ordered: "group" } : {};
    this.#options = readDrainOptions({ to, batch: plan.batch, ...ordered }, 1_000_000);
  }

  /** A statement that fails is the end of its process. */
  async run(): Promise<void> {
    try {
      if (await this.#mayCarry()) await this.#carry();
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      this.#die();
    }
    await Promise.allSettled(this.#asked);
  }

  /** Once no statement fails any more. True: it has carried all that there was, and stopped. */
  async end(): Promise<boolean> {
    if (this.#wrong !== undefined) throw this.#wrong;
    for (const id of this.#open) this.#model.leftUnsettled(id);
    const workers = (await this.#real.store.workers()).map(({ id }) => id);
    if (workers.includes(this.#workerId)) this.#model.dead.add(this.#workerId);
    const isToTheEnd = this.#plan.ending === "answers" || this.#plan.ending === "refuses";
    return this.#hasCarried && isToTheEnd && !this.#hasDied;
  }

  /** Of all drains, the one carries whose worker is registered. */
  async #mayCarry(): Promise<boolean> {
    const { store } = this.#real;
    const [drain] = await this.#real.read("dbq_drains");
    const workers = (await this.#real.rows()).workers.map(({ id }) => id);
    await store.register(newWorker(this.#workerId));
    const mine = await store.drains.take(this.#options.queueName, this.#workerId, "memory");
    assert.equal(mine, !workers.includes(drain?.workerId), "one drain carries, as long as it lives");
    if (!mine) await store.unregister(this.#workerId);
    return mine;
  }

  async #carry(): Promise<void> {
    const { store } = this.#real;
    const pump = new Pump({
      store: this.#heard(),
      wakeups: new Wakeups(),
      workerId: this.#workerId,
      origin: this.#origin,
      options: this.#options,
      onClaim: (more) => !more && this.#over(),
      onDeclaredDead: () => undefined,
      onScheduled: () => undefined,
      onEnded: () => undefined,
      onSent: () => undefined,
      onRefused: () => undefined,
      onPause: () => undefined,
      onResume: () => undefined,
      report: (_, where) => this.#reported(where),
    });
    this.#pump = pump;
    let over = this.#untilOver();
    pump.begin();
    await over;
    await pump.drained();
    while (this.#mustPoll && !this.#hasDied && !this.#hasStopped) {
      this.#mustPoll = false;
      over = this.#untilOver();
      pump.lookForWork();
      await over;
      await pump.drained();
    }
    pump.stopClaiming();
    await pump.drained();
    this.#hasCarried = true;
    if (!this.#hasDied) await store.unregister(this.#workerId);
  }

  /** Resolves when a claim leaves nothing behind, or the drain stops or dies. */
  #untilOver(): Promise<void> {
    return new Promise((resolve) => {
      this.#over = resolve;
    });
  }

  #reported(where: string): void {
    if (where === "settling and claiming") this.#die();
    if (where === "preparing messages") this.#mustPoll = true;
  }

  /** The store, whose answers the model hears first. */
  #heard(): PumpHost["store"] {
    const { store } = this.#real;
    const { drains, synchronous } = store;
    return {
      settleAndClaim: (cycle) =>
        this.#ask(async () => {
          const result = await store.settleAndClaim(cycle);
          this.#check(() => this.#settled(cycle, result));
          return result;
        }),
      heldBy: (id) => this.#ask(() => store.heldBy(id)),
      drains: {
        ...drains,
        funcs: (queueName) => this.#ask(() => drains.funcs(queueName)),
        manualRetries: (ids) => this.#ask(() => drains.manualRetries(ids)),
      },
      synchronous,
    };
  }

  /** A dead process asks for nothing more. */
  #ask<T>(call: () => Promise<T>): Promise<T> {
    if (this.#hasDied) return answerNever();
    const answer = call();
    this.#asked.push(answer);
    return answer;
  }

  #settled({ outcomes }: SettleAndClaim, { settled, refused }: SettleAndClaimResult): void {
    for (const [i, outcome] of outcomes.entries()) {
      assert.ok(settled[i], "nobody else has moved the task");
      const { id } = outcome;
      const stored = refused?.get(outcome)?.stored;
      if (stored?.kind === "failed") this.#model.refused.add(id);
      const { kind } = stored ?? outcome;
      if (kind === "completed" || kind === "failed") this.#model.ended(id, kind);
      if (kind !== "interrupted") this.#open.delete(id);
    }
  }

  #check(judge: () => void): void {
    try {
      judge();
    } catch (error) {
      this.#wrong ??= error;
      this.#die();
    }
  }

  async #send(messages: readonly DrainMessage[]): Promise<DrainAnswer[]> {
    const isIt = this.#sends === this.#plan.at;
    this.#sends += 1;
    if (isIt && this.#plan.ending === "is away") throw new Error("nobody answers");
    const ids = messages.map(({ id }) => readMessageId(id)?.id ?? 0);
    this.#check(() => {
      for (const [i, id] of ids.entries())
        this.#arrived(id, messages[i]?.id === messageId(this.#origin, id, 0));
    });
    return isIt ? await this.#end(ids) : ids.map(() => "sent");
  }

  #arrived(id: number, isRight: boolean): void {
    assert.ok(isRight, `task ${id} has another message id`);
    if (this.#plan.ordered) this.#model.inOrder(id);
    this.#model.arrived(id);
    this.#open.add(id);
  }

  async #end(ids: readonly number[]): Promise<DrainAnswer[]> {
    const { ending } = this.#plan;
    if (ending === "loses") {
      for (const id of ids) {
        this.#model.leftUnsettled(id);
        this.#open.delete(id);
      }
      throw new Error("the connection broke");
    }
    if (ending === "dies") this.#die();
    if (ending === "stops") {
      this.#hasStopped = true;
      this.#pump?.interrupt();
      this.#over();
    }
    if (ending === "dies" || ending === "stops") return await answerNever();
    return ids.map((id) => {
      if (ending === "answers" || id % 3 > 0) return "sent";
      this.#model.refused.add(id);
      return new Error("the broker does not take it");
    });
  }

  #die(): void {
    this.#hasDied = true;
    this.#pump?.abandon();
    this.#over();
  }
}
