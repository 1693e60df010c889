/** The store on Postgres 13 and later, over node-postgres. */
import type { Client } from "pg";
import type { Clock } from "../../base/runtime/clock.ts";
import { memoize } from "../../base/runtime/memoize.ts";
import { importPackage } from "../../base/runtime/packages.ts";
import { operationsOf } from "../../features/sql.ts";
import type { FullStore } from "../../features/store.ts";
import { byClock } from "../server/clock.ts";
import type { ServerDrizzle } from "../server/drizzle.ts";
import { openDatabase, openUrl } from "../server/open.ts";
import type { ServerKind, ServerOptions } from "../server/store.ts";
import { textsOf } from "../sql/texts.ts";
import { configOf, connectPostgres, isOne, settingsOf } from "./connection.ts";
import { diagnosePostgres } from "./diagnose.ts";
import { optimisticDialect, skipLockedDialect } from "./dialect.ts";
import { checkOpen, hasBegun, postgresDrizzle } from "./drizzle.ts";
import { heartbeatConnector } from "./embedded.ts";
import { channelOf, notifyText, PostgresListener } from "./listener.ts";
import { postgresMigrations } from "./migrations.ts";
import { Partitions } from "./partitions.ts";
import { cycleStatements, OneStatementCycles } from "./settle-and-claim.ts";
import { postgresSteps } from "./steps.ts";

/** All queues of a process by one clock share the texts of these statements. */
const textsBy = memoize((clock: Clock) => {
  const skipLocked = textsOf(byClock(skipLockedDialect, clock));
  return {
    skipLocked,
    optimistic: textsOf(byClock(optimisticDialect, clock)),
    cycles: cycleStatements(skipLocked),
    relaxedCycles: cycleStatements(skipLocked, true),
  };
});

/** What does not depend on the schema of the tables. */
const common = {
  operations: {
    "skip-locked": (clock, isRelaxed = false) => {
      const { skipLocked, cycles, relaxedCycles } = textsBy(clock);
      return operationsOf(
        skipLocked,
        (transitions, claims) =>
          new OneStatementCycles(skipLocked, transitions, claims, isRelaxed ? relaxedCycles : cycles),
      );
    },
    optimistic: (clock) => operationsOf(textsBy(clock).optimistic),
  },
  relax: "set local synchronous_commit = off",
  drizzle: postgresDrizzle,
  strategyFor: async () => "skip-locked",
  checkOpen,
  hasBegun,
  urlDefaults: { port: 5432, user: "postgres" },
  configOf,
  connect: connectPostgres,
  drizzleOver: async (client) => {
    const { drizzle } =
      await importPackage<typeof import("drizzle-orm/node-postgres")>("drizzle-orm/node-postgres");
    return drizzle({ client: client as Client }) as unknown as ServerDrizzle;
  },
  settingsOf,
  isOne,
  driver: "pg",
  connector: heartbeatConnector,
  lock: {
    text: "select case when pg_try_advisory_lock(hashtextextended($1, 0)) then 1 end",
    names: ["session"],
  },
  cyclesOverlap: () => true,
  seesLocks: () => true,
  partitions: (runner, dialect) => new Partitions(runner, dialect),
} satisfies Partial<ServerKind>;

/** The texts of a schema are made once in a process. */
const postgresIn = memoize((schema: string | undefined): ServerKind => {
  const channel = channelOf(schema);
  return {
    ...common,
    steps: postgresSteps(schema),
    migrations: postgresMigrations(schema),
    diagnose: (queryable) => diagnosePostgres(queryable, schema),
    notifyInside: (queryable) => queryable.query(notifyText(channel, 1), [""]),
    listenerOver: (pool) => new PostgresListener(pool, channel),
  };
});

/** Opens the queue on the app's own Drizzle database. @throws DatabaseError that says what is wrong with it */
export function openPostgresDatabase(db: object, options: ServerOptions): Promise<FullStore> {
  return openDatabase(postgresIn(options.schema), db, options);
}

/** Opens the queue on a Postgres server. @throws DatabaseError that says what is wrong with it; TypeError for a wrong URL */
export function openPostgres(url: string, options: ServerOptions): Promise<FullStore> {
  return openUrl(postgresIn(options.schema), url, options);
}
