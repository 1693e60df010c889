/** Databases on servers for the tests of the command line, with URLs of users with all, few or no rights. */
import { mysqlServer, newDatabase, type OwnDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { newName, type Server } from "../../support/server.ts";

/** No output may show it. */
export const password = "s3cret-Passw0rd";

export interface ServerPlace {
  /** Its user has all rights to the tables, which do not exist yet. */
  readonly url: string;
  /** Its user may only read. */
  readonly readOnly: string;
  /** The server refuses its user. */
  readonly refused: string;
  readonly noSuchDatabase: string;
  /** Runs SQL, always on the same connection. */
  sql(text: string): Promise<unknown>;
  /** Gives the read-only user its rights: call it when the tables exist. */
  allowReading(): Promise<void>;
  remove(): Promise<void>;
}

export interface ServerGround {
  readonly name: string;
  server(): Promise<Server>;
  place(): Promise<ServerPlace>;
}

function withUser(given: string, user: string, more: (url: URL) => void = () => undefined): string {
  const url = new URL(given);
  url.username = user;
  url.password = password;
  more(url);
  return url.href;
}

const users = () => {
  const name = newName();
  return { owner: `${name}_o`, reader: `${name}_r`, outsider: `${name}_x` };
};

export const postgres: ServerGround = {
  name: "Postgres",
  server: postgresServer,
  place: async () => {
    const schema = await newSchema();
    const { owner, reader, outsider } = users();
    const sql = (text: string) => schema.client.query(text);
    await sql(`create role ${owner} login password '${password}'; create role ${reader} login password '${password}';
      create role ${outsider} nologin password '${password}'; grant create, usage on schema ${schema.name} to ${owner};
      grant usage on schema ${schema.name} to ${reader}`);
    const options = (url: URL) => {
      url.search = `options=${encodeURIComponent(`-c search_path=${schema.name}`)}`;
    };
    return {
      url: withUser(schema.url, owner, options),
      readOnly: withUser(schema.url, reader, options),
      refused: withUser(schema.url, outsider, options),
      noSuchDatabase: withUser(schema.url, owner, (url) => {
        url.pathname = "/dbq_no_such_database";
      }),
      sql,
      allowReading: async () => {
        await sql(`grant select on all tables in schema ${schema.name} to ${reader}`);
      },
      remove: async () => {
        await sql(`drop owned by ${owner}, ${reader}; drop role ${owner}, ${reader}, ${outsider}`);
        await schema.drop();
      },
    };
  },
};

export const mysql: ServerGround = {
  name: "MySQL or MariaDB",
  server: mysqlServer,
  place: async () => {
    const database: OwnDatabase = await newDatabase();
    const { owner, reader } = users();
    const sql = (text: string) => database.client.query(text);
    await sql(`create user ${owner}@'%' identified by '${password}'; create user ${reader}@'%' identified by '${password}';
      grant all on ${database.name}.* to ${owner}@'%'; grant select on ${database.name}.* to ${reader}@'%'`);
    return {
      url: withUser(database.url, owner),
      readOnly: withUser(database.url, reader),
      refused: withUser(database.url, owner, (url) => {
        url.password = `wrong-${password}`;
      }),
      noSuchDatabase: withUser(database.url, owner, (url) => {
        url.pathname = "/dbq_no_such_database";
      }),
      sql,
      allowReading: async () => undefined,
      remove: async () => {
        await sql(`drop user ${owner}@'%', ${reader}@'%'`);
        await database.drop();
      },
    };
  },
};
