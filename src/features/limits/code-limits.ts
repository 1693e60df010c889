/** What a worker's functions say in code about limits and groups: their limits are in the database before it claims their tasks. */
import type { LimitValues } from "../../base/options/limits.ts";
import { performance } from "../../base/runtime/timers.ts";
import type { WithParts } from "../../base/tasks/part.ts";
import { sharingAmong } from "../../base/tasks/registry.ts";
import type {
  Asked,
  ClaimHost,
  ClaimPolicy,
  Heard,
  NextClaim,
  ThrottledTask,
} from "../../worker/claim-policy.ts";
import { type LimitStore, limitsAnswered, limitsAsked, type Sharing } from "./contract.ts";

/** Milliseconds until limits are declared again that the database refused. */
const againMs = 1_000;

/** How the limits of functions, and a throttle, reach the database. */
export interface LimitWrites {
  declare(...args: Parameters<LimitStore["declare"]>): Promise<unknown>;
  throttle(task: ThrottledTask, delay: number): Promise<void>;
}

const textOf = (values: LimitValues | undefined) => JSON.stringify(values ?? null);

/** How those of the functions share that have groups or shared names. */
function sharingOf(funcs: readonly string[]): ReadonlyMap<string, Sharing> | undefined {
  const found = sharingAmong(funcs).filter(({ group, uses }) => (group ?? uses) !== undefined);
  if (found.length === 0) return undefined;
  return new Map(found.map(({ name, group, uses = [] }) => [name, { groups: group !== undefined, uses }]));
}

export class CodeLimits implements ClaimPolicy {
  readonly #writes: LimitWrites;
  readonly #host: ClaimHost;
  /** The limits that the database has, by function. */
  readonly #declared = new Map<string, string>();
  #declaring = false;
  /** Whether limits or pauses were about tasks of the last claim. */
  #areAbout = false;
  #notBefore = Number.NEGATIVE_INFINITY;

  constructor(writes: LimitWrites, host: ClaimHost) {
    this.#writes = writes;
    this.#host = host;
  }

  /**
   * Writes the limits of all functions, and removes those that the code no longer has. While a worker of older code runs the
   * same functions, the last one that has started decides.
   */
  async begin(): Promise<void> {
    const names = this.#host.names();
    const values = new Map(sharingAmong(names).map(({ name, limit }) => [name, limit] as const));
    await this.#writes.declare(names.map((func) => ({ func, values: values.get(func) ?? null })));
    for (const name of names) this.#declared.set(name, textOf(values.get(name)));
  }

  /** The functions whose limits the database has. One that was registered since then has to wait for that. */
  funcs(): readonly string[] {
    const names = this.#host.names();
    const shared = sharingAmong(names);
    if (shared.length === 0) return names;
    const missing = new Set(
      shared
        .filter(({ name, limit }) => (this.#declared.get(name) ?? "null") !== textOf(limit))
        .map(({ name }) => name),
    );
    if (missing.size === 0) return names;
    void this.#declareLater();
    return names.filter((name) => !missing.has(name));
  }

  /** While functions share, or limits were about the last claim, it names the tasks whose places may be free. */
  ask({ funcs, ended, mayStartLater: held }: NextClaim): Asked {
    const sharing = sharingOf(funcs);
    const freed = sharing || this.#areAbout ? ended() : [];
    return {
      ...limitsAsked.with({ ...(sharing && { sharing }), ...(freed.length > 0 && { freed }), held }),
      alone: sharing !== undefined,
    };
  }

  /** When a running task ends, another one may start. */
  hear(answer: WithParts): Heard {
    const limits = limitsAnswered.of(answer);
    this.#areAbout = limits !== undefined;
    return { ...limits, endsLetStart: this.#areAbout };
  }

  async throttle(task: ThrottledTask, delay: number): Promise<void> {
    await this.#writes.throttle(task, delay);
  }

  async #declareLater(): Promise<void> {
    if (this.#declaring || performance.now() < this.#notBefore) return;
    this.#declaring = true;
    try {
      await this.begin();
      this.#host.onReady();
    } catch (error) {
      this.#notBefore = performance.now() + againMs;
      this.#host.report(error, "writing the limits of functions");
    } finally {
      this.#declaring = false;
    }
  }
}
