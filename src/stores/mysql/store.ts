/** The store on MySQL 8.0 and MariaDB 10.6 and later, over mysql2. */
import type { Clock } from "../../base/runtime/clock.ts";
import { memoize } from "../../base/runtime/memoize.ts";
import { operationsOf } from "../../features/sql.ts";
import type { FullStore } from "../../features/store.ts";
import { byClock } from "../server/clock.ts";
import { openDatabase, openUrl } from "../server/open.ts";
import type { ServerKind, ServerOptions } from "../server/store.ts";
import { textsOf } from "../sql/texts.ts";
import { configOf, connectMysql, isOne, settingsOf } from "./connection.ts";
import { diagnoseMysql, isCluster } from "./diagnose.ts";
import { optimisticDialect, skipLockedDialect } from "./dialect.ts";
import { checkOpen, hasBegun, mysqlDrizzle, mysqlDrizzleOver } from "./drizzle.ts";
import { heartbeatConnector } from "./embedded.ts";
import { mysqlMigrations } from "./migrations.ts";
import { mysqlSteps } from "./steps.ts";

/** All queues of a process by one clock share the texts of these statements. */
const textsBy = memoize((clock: Clock) => ({
  skipLocked: textsOf(byClock(skipLockedDialect, clock)),
  optimistic: textsOf(byClock(optimisticDialect, clock)),
}));

const mysql: ServerKind = {
  steps: mysqlSteps,
  operations: {
    "skip-locked": (clock) => operationsOf(textsBy(clock).skipLocked),
    optimistic: (clock) => operationsOf(textsBy(clock).optimistic),
  },
  migrations: mysqlMigrations,
  drizzle: mysqlDrizzle,
  strategyFor: async (queryable) => ((await isCluster(queryable)) ? "optimistic" : "skip-locked"),
  diagnose: diagnoseMysql,
  notifyInside: undefined,
  checkOpen,
  hasBegun,
  urlDefaults: { port: 3306, user: "root" },
  configOf,
  connect: connectMysql,
  drizzleOver: mysqlDrizzleOver,
  listenerOver: () => undefined,
  settingsOf,
  isOne,
  driver: "mysql2/promise",
  connector: heartbeatConnector,
  lock: { text: "select get_lock(?, 0)", names: ["session"] },
  cyclesOverlap: (strategy) => strategy === "skip-locked",
  // In a cluster, only the node that gave a lock knows it.
  seesLocks: (strategy) => strategy === "skip-locked",
};

/** Opens the queue on the app's own Drizzle database. @throws DatabaseError that says what is wrong with it */
export function openMysqlDatabase(db: object, options: ServerOptions): Promise<FullStore> {
  return openDatabase(mysql, db, options);
}

/** Opens the queue on a MySQL or MariaDB server. @throws DatabaseError that says what is wrong with it; TypeError for a wrong URL */
export function openMysql(url: string, options: ServerOptions): Promise<FullStore> {
  return openUrl(mysql, url, options);
}
