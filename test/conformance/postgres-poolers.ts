/** The store through a pooler, which each kind starts in front of a Postgres of its own. */
import { Client } from "pg";
import { openPostgres } from "../../src/stores/postgres/store.ts";
import { OwnPooler, type PoolerName, poolerKinds } from "../chaos/servers/own-pooler.ts";
import { OwnPostgres } from "../chaos/servers/own-postgres.ts";
import type { GroupName, Kind, Need, Row } from "./case.ts";
import { nodePostgres, postgresDialect } from "./postgres-stores.ts";
import { type Home, serverKind } from "./server-stores.ts";

/** The settings of a database reach every connection, whichever way its pooler resets it. Commits need not wait for the disk. */
const settings = ["synchronous_commit = off", "deadlock_timeout = '20ms'"];

async function newHome(name: PoolerName): Promise<Home> {
  const own = await OwnPostgres.start();
  const client = new Client({ connectionString: own.url });
  await client.connect();
  for (const setting of settings) await client.query(`alter database postgres set ${setting}`);
  const pooler = await OwnPooler.start(name, own.url);
  return {
    url: pooler.through(own.url),
    sql: async (text) => (await client.query<Row>(text)).rows,
    drop: async () => {
      await client.end();
      await pooler[Symbol.asyncDispose]();
      await own[Symbol.asyncDispose]();
    },
  };
}

const noSettings = { "readers that refuse to write": "PgBouncer gives its connections no settings" };

const lacking: Readonly<Record<PoolerName, Partial<Record<Need, string>>>> = {
  "PgBouncer in transaction mode": {
    ...noSettings,
    "change notifications": "LISTEN needs a session: workers poll",
  },
  "PgBouncer in session mode": noSettings,
  pgpool: {},
};

const concerns: readonly GroupName[] = ["transaction and within", "claim", "heartbeat", "watch and diagnose"];

export const postgresPoolers: readonly Kind[] = (Object.keys(poolerKinds) as PoolerName[]).map((name) => {
  const { sessions } = poolerKinds[name];
  return serverKind(
    { ...postgresDialect, newHome: () => newHome(name) },
    {
      name: `Postgres, behind ${name}`,
      lacks: lacking[name],
      driver: nodePostgres,
      connect: (url) => openPostgres(url, { migrate: true, sessions }),
      concerns,
    },
  );
});
