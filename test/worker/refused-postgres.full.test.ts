/** Outcomes that Postgres refuses for good. */
import { Client } from "pg";
import { describe, onTestFinished } from "vitest";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { isMissing, newName } from "../support/server.ts";
import { isBad, type Database as Made, refusedCases } from "./refused-cases.ts";

const inSchema = async (): Promise<Made> => {
  const { url, client, drop } = await newSchema();
  onTestFinished(drop);
  return { url, raw: (text) => client.query(text) };
};

/** A database whose encoding has no emoji. */
const inLatin1 = async (): Promise<Made> => {
  const { url: server = "" } = await postgresServer();
  const admin = new Client({ connectionString: server });
  await admin.connect();
  const name = newName();
  await admin.query(`create database ${name} encoding 'LATIN1' locale 'C' template template0`);
  onTestFinished(async () => {
    await admin.query(`drop database ${name} with (force)`);
    await admin.end();
  });
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, raw: () => Promise.reject(new Error("not needed")) };
};

const executes = (body: string, when: string, table = "dbq_tasks", event = "update") => `
  create function no() returns trigger language plpgsql as $$ begin ${body} end $$;
  create trigger no before ${event} on ${table} for each row when (${when.replace("new.result", "new.result::text")}) execute function no()`;

describe.skipIf(isMissing(await postgresServer()))("on a server", () => {
  refusedCases({
    name: "Postgres",
    make: inSchema,
    refusals: [
      {
        name: "a trigger",
        sql: executes("raise 'not on my watch';", isBad),
        says: /not on my watch \(P0001\)$/,
      },
      {
        name: "a trigger with an error code of its own",
        sql: executes("raise 'not on my watch' using errcode = 'ZZ001';", isBad),
        says: /not on my watch \(ZZ001\)$/,
      },
      {
        name: "a trigger that discards the change",
        sql: executes("return null;", isBad),
        says: /discards the change/,
      },
      {
        name: "a CHECK",
        sql: "alter table dbq_tasks add constraint no_bad check (result::text not like '%bad%')",
        says: /violates check constraint "no_bad"/,
      },
      {
        name: "an encoding without emoji",
        make: inLatin1,
        result: "Hi 🌊",
        says: /has no equivalent in encoding "LATIN1"/,
      },
    ],
    trigger: (table, event, when) => executes("raise 'the row says no';", when, table, event),
    drop: (table) => `drop trigger no on ${table}`,
  });
});
