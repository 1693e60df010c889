/** What the stores on servers share: one database for all cases of a kind, emptied before each case. */
import type { FullStore } from "../../src/features/store.ts";
import type { AppDatabase, GroupName, Kind, Need, OpenTransaction, Row, TestDatabase } from "./case.ts";

/** A schema or database on a server, as `test/support/` creates it. */
export interface Home {
  readonly url: string;
  /** Runs SQL on a separate connection; several statements at once are allowed. */
  sql(text: string): Promise<Row[]>;
  drop(): Promise<void>;
}

/** An app's Drizzle database over a driver, on separate connections. */
export type Driver = (url: string) => { db: object; end(): Promise<void> };

export interface ServerKind {
  readonly name: string;
  readonly lacks: Partial<Record<Need, string>>;
  readonly driver: Driver;
  readonly concerns?: readonly GroupName[];
  connect(url: string): Promise<FullStore>;
}

export interface ServerDialect {
  newHome(): Promise<Home>;
  earlier: TestDatabase["earlier"];
}

/** A DELETE takes 1 ms; TRUNCATE waits 60 ms for the disk, and running the migrations again takes longer still. */
export const emptied = [
  ...[
    "dbq_task_logs",
    "dbq_limits",
    "dbq_attempts",
    "dbq_workers",
    "dbq_tasks",
    "dbq_agents",
    "dbq_audit",
    "dbq_settings",
    "dbq_drains",
    "dbq_stats",
    "dbq_failures",
    "dbq_owed_hooks",
    "dbq_steps",
    "dbq_events",
    "dbq_waits",
    "dbq_causes",
  ],
]
  .map((table) => `delete from ${table}`)
  .join("; ");

export function serverKind(dialect: ServerDialect, { driver, ...kind }: ServerKind): Kind {
  const { connect } = kind;
  let home: Promise<Home> | undefined;
  const migrated = async () => {
    const made = await dialect.newHome();
    await (await connect(made.url)).close();
    return made;
  };
  return {
    ...kind,
    make: async () => {
      home ??= migrated();
      const { sql, url } = await home;
      await sql(emptied);
      return { url, sql, open: () => connect(url), earlier: dialect.earlier, ...appOf(driver, url) };
    },
    end: async () => await (await home)?.drop(),
  };
}

/** An app's connections beside the store, until the test database is removed. */
function appOf(driver: Driver, url: string): Pick<TestDatabase, "app" | "begin" | "remove"> {
  const ends: (() => Promise<unknown>)[] = [];
  let app: AppDatabase | undefined;
  const open = () => {
    const { db, end } = driver(url);
    ends.unshift(end);
    return db as AppDatabase;
  };
  return {
    app: () => {
      app ??= open();
      return app;
    },
    begin: async () => {
      const transaction = await begun(open());
      // Ends before its connections, which would wait for it.
      ends.unshift(() => transaction.rollback());
      return transaction;
    },
    remove: async () => {
      for (const end of ends) await end();
    },
  };
}

/** Begins a transaction that ends on request. */
function begun(db: AppDatabase): Promise<OpenTransaction> {
  class Undone extends Error {}
  return new Promise((resolve, reject) => {
    const ended = Promise.resolve(
      db.transaction((handle) => {
        return new Promise<void>((commit, undo) => {
          resolve({
            handle,
            commit: async () => {
              commit();
              await ended;
            },
            rollback: async () => {
              undo(new Undone());
              await ended.catch((error: unknown) => {
                if (!(error instanceof Undone)) throw error;
              });
            },
          });
        });
      }),
    );
    ended.catch(reject);
  });
}

/** A store on the app's own database; closing it ends the app's connections. */
export async function onDatabaseOf(
  driver: Driver,
  url: string,
  open: (db: object) => Promise<FullStore>,
): Promise<FullStore> {
  const { db, end } = driver(url);
  let ended: Promise<void> | undefined;
  const store = await open(db);
  return {
    ...store,
    close: async () => {
      await store.close();
      ended ??= end();
      await ended;
    },
  };
}
