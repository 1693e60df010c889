/** What a worker's functions say in code about limits and groups: their limits are in the database before it claims their tasks. */

import type { LimitValues } from "../base/options/limits.ts";
import { performance } from "../base/runtime/timers.ts";
import { runnableNames, sharingAmong } from "../base/tasks/registry.ts";
import type { LimitStore } from "../features/limits/contract.ts";
import type { Sharing } from "../store.ts";

/** Milliseconds until limits are declared again that the database refused. */
const againMs = 1_000;

interface CodeLimitsHost {
  readonly limits: Pick<LimitStore, "declare">;
  /** The names of the worker's functions; undefined: all that are registered. */
  readonly names: readonly string[] | undefined;
  /** Functions can be claimed that could not before. */
  onDeclared(): void;
  report(error: unknown, where: string): void;
}

const textOf = (values: LimitValues | undefined) => JSON.stringify(values ?? null);

export class CodeLimits {
  readonly #host: CodeLimitsHost;
  /** The limits that the database has, by function. */
  readonly #declared = new Map<string, string>();
  #declaring = false;
  #notBefore = Number.NEGATIVE_INFINITY;

  constructor(host: CodeLimitsHost) {
    this.#host = host;
  }

  /**
   * Writes the limits of all functions, and removes those that the code no longer has. Before the first claim: while a worker
   * of older code runs the same functions, the last one that has started decides.
   */
  async declare(): Promise<void> {
    const names = runnableNames(this.#host.names);
    const values = new Map(sharingAmong(names).map(({ name, limit }) => [name, limit] as const));
    await this.#host.limits.declare(names.map((func) => ({ func, values: values.get(func) ?? null })));
    for (const name of names) this.#declared.set(name, textOf(values.get(name)));
  }

  /** The functions whose limits the database has. One that was registered since then has to wait for that. */
  funcs(): readonly string[] {
    const names = runnableNames(this.#host.names);
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

  sharing(funcs: readonly string[]): ReadonlyMap<string, Sharing> | undefined {
    const found = sharingAmong(funcs).filter(({ group, uses }) => (group ?? uses) !== undefined);
    if (found.length === 0) return undefined;
    return new Map(found.map(({ name, group, uses = [] }) => [name, { groups: group !== undefined, uses }]));
  }

  async #declareLater(): Promise<void> {
    if (this.#declaring || performance.now() < this.#notBefore) return;
    this.#declaring = true;
    try {
      await this.declare();
      this.#host.onDeclared();
    } catch (error) {
      this.#notBefore = performance.now() + againMs;
      this.#host.report(error, "writing the limits of functions");
    } finally {
      this.#declaring = false;
    }
  }
}
