/** `Agent`: a worker on a machine without access to the database. Managers claim and settle for it. */
import { randomUUID } from "node:crypto";
import type { LimitValues } from "../../../base/options/limits.ts";
import { registrationOf, runnableNames } from "../../../base/tasks/registry.ts";
import { Wakeups } from "../../../queue/wakeups.ts";
import type { ClaimHost, ClaimPolicy } from "../../../worker/claim-policy.ts";
import { Dispatcher } from "../../../worker/dispatcher.ts";
import { WorkerEmitter } from "../../../worker/events.ts";
import type { OpenExecutors } from "../../../worker/executor.ts";
import { Lifecycle } from "../../../worker/lifecycle.ts";
import { Client, RefusedError } from "./client.ts";
import { toldLimits } from "./messages.ts";
import {
  type AgentOptions,
  type AgentStopOptions,
  type ReadAgentOptions,
  readAgentOptions,
  readAgentStopOptions,
} from "./options.ts";
import { beatEvery, RemoteStore } from "./remote-store.ts";

/** Bytes of a result that an agent sends. The Manager has the queue's own limit. */
const maxResult = 1_048_576;
/** Milliseconds for which a stop goes on to settle. */
const finalSettleMs = 5_000;

/** An agent between its start and its stop. */
interface Run {
  client: Client;
  store: RemoteStore;
  claims: ClaimPolicy;
  dispatcher: Dispatcher;
}

/** Writes the limits of functions; null: their code sets none. */
type Declare = (limits: readonly { func: string; values: LimitValues | null }[]) => Promise<unknown>;

/** What other features have for an agent. `src/features/agent.ts` gives it, since one feature never imports another. */
export interface AgentParts {
  /** Where its functions run. */
  openExecutors: OpenExecutors;
  /** What its claims are for. */
  openClaims(declare: Declare, host: ClaimHost): ClaimPolicy;
}

/**
 * Runs tasks that Managers claim for it. It is an `EventEmitter` with the events of a `Worker`. A function's
 * `currentTask().within(tx)` throws: there is no database here.
 */
export class Agent<C = unknown> extends WorkerEmitter {
  readonly #options: ReadAgentOptions;
  readonly #names: readonly string[] | undefined;
  readonly #parts: AgentParts;
  readonly #lifecycle = new Lifecycle({
    of: "the agent",
    finalMs: finalSettleMs,
    report: (error, where) => this.reportError(error, where),
  });
  #run: Run | undefined;
  #session: string | undefined;

  /**
   * @throws TypeError for a wrong option; UnregisteredFunctionError for an unregistered function in `tasks`
   */
  constructor(options: AgentOptions<C>, parts: AgentParts) {
    super();
    this.#parts = parts;
    this.#options = readAgentOptions(options);
    this.#names = this.#options.tasks?.map((fn) => registrationOf(fn).definition.name);
  }

  /** Its session, a UUID, from the call of `start` on; undefined while it is stopped. */
  get session(): string | undefined {
    return this.#session;
  }

  /** The Manager that it asks. */
  get manager(): string | undefined {
    return this.#run?.client.url;
  }

  /** How many tasks it runs, with those whose outcome no Manager has accepted yet. */
  get inflight(): number {
    return this.#run?.dispatcher.inflight ?? 0;
  }

  /**
   * Resolves when a Manager has answered. Tries each of them until one does.
   * @throws RefusedError when one refuses the token or a function
   */
  start(): Promise<void> {
    this.#session ??= randomUUID();
    return this.#lifecycle.start(() => this.#start());
  }

  async #start(): Promise<void> {
    // The stop of an earlier start may have ended the session since this one was asked for.
    this.#session ??= randomUUID();
    const session = this.#session;
    const run = this.#newRun(session);
    this.#run = run;
    const { store, dispatcher, claims } = run;
    this.#lifecycle.runs({
      stopClaiming: () => {
        dispatcher.stopClaiming();
        store.stopClaiming();
      },
      drained: () => dispatcher.drained(),
      interrupt: () => dispatcher.interrupt(),
      abandon: () => end(run),
    });
    if (runnableNames(this.#names).length === 0)
      throw new TypeError("agent.start: no function is registered");
    // A wrong token, or a function that is not the agent's, is refused here and not in a log.
    await claims.begin();
    const funcs = claims.funcs();
    const { parts } = claims.ask({ funcs, ended: () => [], mayStartLater: undefined });
    const { concurrency: limit } = this.#options;
    await store.begin({ workerId: session, queueNames: [], funcs, limit, parts });
    dispatcher.lookForWork();
  }

  #newRun(session: string): Run {
    const { managers, token, ca, concurrency, maxTasksPerChild, context } = this.#options;
    const client = new Client(managers, token, ca);
    const report = (error: unknown, where: string) => this.reportError(error, where);
    const store = new RemoteStore({
      ...{ client, session, report },
      look: (ids) => void dispatcher.ownership.check(ids),
    });
    const executors = this.#parts.openExecutors({
      concurrency,
      maxTasksPerChild,
      maxPayload: maxResult,
      report,
    });
    const declare: Declare = (all) => store.declare(toldLimits(all));
    const claims = this.#parts.openClaims(declare, {
      names: () => runnableNames(this.#names),
      onReady: () => dispatcher.lookForWork(),
      report,
    });
    const dispatcher: Dispatcher = new Dispatcher({
      ...{ store, claims, concurrency, context, workerId: session, queueNames: [], maxPayload: maxResult },
      wakeups: new Wakeups(),
      checkEvery: beatEvery,
      isClaimWaiting: () => store.isWaiting,
      executorOf: (definition) => executors.executorOf(definition),
      onDeclaredDead: () => undefined,
      onClaim: () => undefined,
      onScheduled: () => undefined,
      reportStarted: (record) => this.reportStarted(record),
      reportSettled: (record, outcome) => this.reportSettled(record, outcome),
      reportLost: (record, cancelled) => this.reportLost(record, cancelled),
      reportError: report,
    });
    client.onTrouble = (error) => report(error, "asking the Managers, none of which answers");
    const run = { client, store, claims, dispatcher };
    const forget = () => {
      this.#run = undefined;
      this.#session = undefined;
    };
    this.#lifecycle.onStop(
      forget,
      () => end(run),
      () => executors.close(),
    );
    return run;
  }

  /**
   * Claims no more tasks, and resolves when the running ones have ended and are settled. After `grace` their signals are aborted,
   * and they are handed back without a retry charged.
   * @throws TypeError for a wrong option
   */
  async stop(options?: AgentStopOptions): Promise<void> {
    const { grace } = readAgentStopOptions(options);
    await this.#lifecycle.stop(grace);
  }
}

/** Gives up the tasks that have not ended, and ends all requests. */
function end({ dispatcher, store }: Pick<Run, "dispatcher" | "store">): void {
  dispatcher.abandon();
  store.close();
}

export { RefusedError };
