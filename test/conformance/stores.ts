/** The registry of stores: the suite runs every case on each of them. A new database is one more entry. */
import type { Kind } from "./case.ts";

/** By the beginning of their names. A process that tests one of them does not load the others' drivers. */
const registry: readonly [begins: string, load: () => Promise<readonly Kind[]>][] = [
  ["SQLite", async () => (await import("./sqlite-stores.ts")).sqliteStores],
  ["Postgres, an app's", async () => (await import("./postgres-apps.ts")).postgresApps],
  ["Postgres, behind", async () => (await import("./postgres-poolers.ts")).postgresPoolers],
  ["Postgres", async () => (await import("./postgres-stores.ts")).postgresStores],
  ["MySQL", async () => (await import("./mysql-stores.ts")).mysqlStores],
];

/**
 * Finds a kind by its name, for another process of the same case.
 * @throws Error when no kind has this name
 */
export async function kindNamed(name = ""): Promise<Kind> {
  const [, load] = registry.find(([begins]) => name.startsWith(begins)) ?? [];
  const found = (await load?.())?.find((kind) => kind.name === name);
  if (!found) throw new Error(`there is no store ${name}`);
  return found;
}
