/** The servers that some of the tests need which have to catch faults: found once, or started, for all of their runs. */
import { tsImport } from "tsx/esm/api";

/**
 * @typedef {import("../test/mutants/mutant.ts").Mutant} Mutant
 * @typedef {import("../test/support/server.ts").Server} Server
 * @typedef {{ name: string, imported: string, find(): Promise<Server> }} Kind
 */

/** @type {readonly Kind[]} */
const kinds = [
  {
    name: "Postgres",
    imported: "support/postgres.ts",
    find: async () => (await tsImport("../test/support/postgres.ts", import.meta.url)).postgresServer(),
  },
  {
    name: "MySQL",
    imported: "support/mysql.ts",
    find: async () => (await tsImport("../test/support/mysql.ts", import.meta.url)).mysqlServer(),
  },
];

/**
 * What a file of tests needs, by what it imports itself.
 * @param {string} text
 * @returns {string | undefined}
 */
export function serverOf(text) {
  return kinds.find(({ imported }) => text.includes(`/${imported}"`))?.name;
}

/**
 * Calls `act` with those that can be judged here: a server that is missing leaves out what needs it, and says so. With
 * DBQ_REQUIRE_ALL=1 that is an error.
 * @template T
 * @param {readonly Mutant[]} mutants
 * @param {(file: string) => string} textOf
 * @param {(possible: readonly Mutant[]) => Promise<T>} act
 * @returns {Promise<T>}
 */
export async function withServers(mutants, textOf, act) {
  const needs = new Map(mutants.map((mutant) => [mutant, serverOf(textOf(mutant.caughtBy.file))]));
  const needed = new Set(needs.values());
  // Started when it is first asked for, where there is none; the runs of tests are told of it by the environment.
  const stop = needed.has("Postgres") ? await startsPostgres() : undefined;
  try {
    const missing = new Set();
    for (const { name, find } of kinds.filter((kind) => needed.has(kind.name))) {
      const { reason } = await find();
      if (reason === undefined) continue;
      if (process.env.DBQ_REQUIRE_ALL === "1") throw new Error(reason);
      missing.add(name);
      const count = [...needs.values()].filter((need) => need === name).length;
      console.error(`left out: ${count} faults: ${reason}`);
    }
    return await act(mutants.filter((mutant) => !missing.has(needs.get(mutant))));
  } finally {
    await stop?.();
  }
}

/** @returns {Promise<() => Promise<void>>} */
async function startsPostgres() {
  const { setup } = await tsImport("../test/support/embedded-postgres.ts", import.meta.url);
  return await setup();
}
