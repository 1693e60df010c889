/** Stores on servers for one test each, and what comes between a store and its server. */
import { Client, type QueryResult } from "pg";
import { onTestFinished } from "vitest";
import type { Store } from "../../src/store.ts";
import { openMysql } from "../../src/stores/mysql.ts";
import { openPostgres } from "../../src/stores/postgres.ts";
import type { ServerOptions } from "../../src/stores/server.ts";

type Options = Omit<ServerOptions, "migrate">;

/** Closed after the test. */
async function opened(opening: Promise<Store>): Promise<Store> {
  const store = await opening;
  onTestFinished(() => store.close());
  return store;
}

export const openedPostgres = (url: string, options: Options = {}) =>
  opened(openPostgres(url, { migrate: true, ...options }));

export const openedMysql = (url: string, options: Options = {}) =>
  opened(openMysql(url, { migrate: true, ...options }));

/** A question as node-postgres is asked it: a text by itself is the app's, or begins or ends a transaction. */
interface Question {
  text: string;
  values: readonly unknown[];
}

/**
 * Does something right after each answer of Postgres to any client of this process, until the test has ended: what it
 * throws is thrown in place of the answer.
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
