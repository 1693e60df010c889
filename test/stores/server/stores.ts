/** Stores on servers for a single test, and hooks between a store and its server. */
import { Client, type QueryResult } from "pg";
import { expect, onTestFinished } from "vitest";
import type { FullStore, FullTransaction } from "../../../src/features/store.ts";
import { openMysql } from "../../../src/stores/mysql/store.ts";
import { openPostgres } from "../../../src/stores/postgres/store.ts";
import type { ServerOptions } from "../../../src/stores/server/store.ts";
import { newTask } from "../../conformance/arrange.ts";

type Options = Omit<ServerOptions, "migrate">;

/** Closes the store after the test. */
async function opened(opening: Promise<FullStore>): Promise<FullStore> {
  const store = await opening;
  onTestFinished(() => store.close());
  return store;
}

export const openedPostgres = (url: string, options: Options = {}) =>
  opened(openPostgres(url, { migrate: true, ...options }));

export const openedMysql = (url: string, options: Options = {}) =>
  opened(openMysql(url, { migrate: true, ...options }));

/** Begins and ends transactions by `query`. Inserts within them exist after the commit, and not before. */
export async function insertsWhatIsCommitted(
  store: FullStore,
  within: Pick<FullTransaction, "insert">,
  query: (text: string) => Promise<unknown>,
): Promise<void> {
  const tasks = [newTask(), newTask({ uniqueKey: "begun" })];
  for (const end of ["rollback", "commit"]) {
    await query("begin");
    await within.insert(tasks, "report");
    expect(await store.list({}, 10, undefined)).toEqual([]);
    await query(end);
  }
  expect(await store.list({}, 10, undefined)).toHaveLength(2);
}

/** A query as node-postgres gets it: plain text comes from the app, or begins or ends a transaction. */
interface Question {
  text: string;
  values: readonly unknown[];
}

/**
 * Calls `act` right after each answer of Postgres to any client of this process, until the test has ended. An error
 * that it throws replaces the answer.
 */
export function afterAnswers(act: (question: Question) => Promise<void> | void): void {
  const { query } = Client.prototype;
  Client.prototype.query = async function (this: Client, config: unknown, ...rest: unknown[]) {
    const result: QueryResult = await Reflect.apply(query, this, [config, ...rest]);
    const { text, values = [] } = typeof config === "string" ? { text: config } : (config as Question);
    await act({ text, values });
    return result;
  } as unknown as typeof query;
  onTestFinished(() => {
    Client.prototype.query = query;
  });
}
