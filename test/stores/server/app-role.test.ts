/** Two users, as `docs/databases.md` has them: the owner of the tables, and the role of an app. */
import { describe, expect, it, onTestFinished } from "vitest";
import type { Store, TransferState } from "../../../src/store.ts";
import { openMysql } from "../../../src/stores/mysql/store.ts";
import { openPostgres } from "../../../src/stores/postgres/store.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";

interface Place {
  /** Of the owner. */
  open(): Promise<Store>;
  /** Of the app. */
  openAsApp(): Promise<Store>;
  /** Lets the app work with the tables that there are. */
  grant(): Promise<unknown>;
  say(text: string): Promise<unknown>;
}

const options = { migrate: true };
const tables = [
  ["select, insert, update, delete", ["dbq_tasks", "dbq_workers"]],
  ["select, insert, delete", ["dbq_attempts"]],
  ["select", ["dbq_migrations"]],
] as const;

const grants = (to: string, name: (table: string) => string): string =>
  tables
    .flatMap(([rights, of]) => of.map((table) => `grant ${rights} on ${name(table)} to ${to}`))
    .join("; ");

async function onPostgres(): Promise<Place> {
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
    say: (text) => client.query(text),
  };
}

async function onMysql(): Promise<Place> {
  const { name, url, client, drop } = await newDatabase();
  onTestFinished(drop);
  const user = `'${name}'@'%'`;
  await client.query(`create user ${user} identified by '${name}'`);
  onTestFinished(async () => void (await client.query(`drop user ${user}`)));
  // Without a right in it, a database is none that a user may choose.
  await client.query(`grant create temporary tables on ${name}.* to ${user}`);
  const theirs = new URL(url);
  [theirs.username, theirs.password] = [name, name];
  return {
    open: () => openMysql(url, options),
    openAsApp: () => openMysql(theirs.href, options),
    grant: () => client.query(grants(user, (table) => `${name}.${table}`)),
    say: (text) => client.query(text),
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
    ...{ name: "Postgres", server: await postgresServer(), newPlace: onPostgres },
    move: ["not visible to this user"],
  },
  // There, what a user has no right to is not there for him.
  { ...{ name: "MySQL", server: await mysqlServer(), newPlace: onMysql }, move: [] },
])("the role of an app on $name", ({ server, newPlace, move }) => {
  it.skipIf(isMissing(server))("works with tables that are up to date, and makes none", async () => {
    const place = await newPlace();
    await expect(place.openAsApp()).rejects.toThrow('run "dbq migrate" as the user who owns them');
    await (await place.open()).close();
    await place.grant();
    await (await place.openAsApp()).close();
  });

  it.skipIf(isMissing(server))("is told that the tables are newer than it is", async () => {
    const place = await newPlace();
    await (await place.open()).close();
    await place.grant();
    await place.say("update dbq_migrations set created_at = 9000000000000");
    await expect(place.openAsApp()).rejects.toThrow("update dbq-ts");
  });

  it.skipIf(isMissing(server))("is told by a diagnosis what it may see of a move", async () => {
    const place = await newPlace();
    const owner = await place.open();
    onTestFinished(() => owner.close());
    await place.grant();
    await owner.transfer.setState(mark, undefined);
    const store = await place.openAsApp();
    onTestFinished(() => store.close());
    const facts = await store.diagnose();
    expect(facts.filter((fact) => fact.name === "move").map(({ value }) => value)).toEqual(move);
  });
});
