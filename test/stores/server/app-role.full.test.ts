/** Two users, as in `docs/databases.md`: the owner of the tables, and the role of an app. */
import { describe, expect, it, onTestFinished } from "vitest";
import type { FullStore } from "../../../src/features/store.ts";
import type { TransferState } from "../../../src/features/transfer/contract.ts";
import { openMysql } from "../../../src/stores/mysql/store.ts";
import { openPostgres } from "../../../src/stores/postgres/store.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";

interface TestDatabase {
  /** As the owner. */
  open(): Promise<FullStore>;
  /** As the app's role. */
  openAsApp(): Promise<FullStore>;
  /** Grants the app's role the rights on the existing tables. */
  grant(): Promise<unknown>;
  query(text: string): Promise<unknown>;
}

const options = { migrate: true };
const tables = [
  ["select, insert, update, delete", ["dbq_tasks", "dbq_workers"]],
  ["select, insert, delete", ["dbq_attempts", "dbq_task_logs"]],
  ["select", ["dbq_migrations"]],
] as const;

const grants = (to: string, name: (table: string) => string): string =>
  tables
    .flatMap(([rights, of]) => of.map((table) => `grant ${rights} on ${name(table)} to ${to}`))
    .join("; ");

async function onPostgres(): Promise<TestDatabase> {
  const { name, url, client, drop } = await newSchema();
  onTestFinished(drop);
  const role = `${name}_app`;
  await client.query(`create role ${role}; grant usage on schema ${name} to ${role}`);
  onTestFinished(async () => void (await client.query(`drop owned by ${role}; drop role ${role}`)));
  const theirs = new URL(url);
  theirs.searchParams.set("options", `${theirs.searchParams.get("options")} -c role=${role}`);
  theirs.search = theirs.search.replaceAll("+", "%20");
  return {
    open: () => openPostgres(url, options),
    openAsApp: () => openPostgres(theirs.href, options),
    grant: () => client.query(grants(role, (table) => table)),
    query: (text) => client.query(text),
  };
}

async function onMysql(): Promise<TestDatabase> {
  const { name, url, client, drop } = await newDatabase();
  onTestFinished(drop);
  const user = `'${name}'@'%'`;
  await client.query(`create user ${user} identified by '${name}'`);
  onTestFinished(async () => void (await client.query(`drop user ${user}`)));
  // A user without any right on a database cannot select it.
  await client.query(`grant create temporary tables on ${name}.* to ${user}`);
  const theirs = new URL(url);
  [theirs.username, theirs.password] = [name, name];
  return {
    open: () => openMysql(url, options),
    openAsApp: () => openMysql(theirs.href, options),
    grant: () => client.query(grants(user, (table) => `${name}.${table}`)),
    query: (text) => client.query(text),
  };
}

const mark: TransferState = {
  moveId: "m",
  run: "r",
  phase: "closing",
  other: "the other",
  refusal: "it moves",
};

describe.each([
  {
    ...{ name: "Postgres", server: await postgresServer(), newDatabase: onPostgres },
    move: ["not visible to this user"],
  },
  // On MySQL, a user cannot see what he has no right to.
  { ...{ name: "MySQL", server: await mysqlServer(), newDatabase: onMysql }, move: [] },
])("the role of an app on $name", ({ server, newDatabase, move }) => {
  it.skipIf(isMissing(server))("works with migrated tables, and does not migrate", async () => {
    const database = await newDatabase();
    await expect(database.openAsApp()).rejects.toThrow('run "dbq migrate" as the user who owns them');
    await (await database.open()).close();
    await database.grant();
    await (await database.openAsApp()).close();
  });

  it.skipIf(isMissing(server))("gets an error when the tables are newer than the app", async () => {
    const database = await newDatabase();
    await (await database.open()).close();
    await database.grant();
    await database.query("update dbq_migrations set created_at = 9000000000000");
    await expect(database.openAsApp()).rejects.toThrow("update dbq-ts");
  });

  it.skipIf(isMissing(server))("sees the permitted parts of a transfer in a diagnosis", async () => {
    const database = await newDatabase();
    const owner = await database.open();
    onTestFinished(() => owner.close());
    await database.grant();
    await owner.transfer.setState(mark, undefined);
    const store = await database.openAsApp();
    onTestFinished(() => store.close());
    const facts = await store.diagnose();
    expect(facts.filter((fact) => fact.name === "move").map(({ value }) => value)).toEqual(move);
  });
});
