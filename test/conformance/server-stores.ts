/** What the stores on servers have in common: one place for all cases of a kind, emptied before each. */
import type { Store } from "../../src/store.ts";
import type { AppDatabase, GroupName, Kind, Need, OpenTransaction, Place, Row } from "./case.ts";

/** Tables of its own on a server, as `test/support/` makes them. */
export interface Home {
  readonly url: string;
  /** Runs SQL on a connection of its own, several statements at once too. */
  sql(text: string): Promise<Row[]>;
  drop(): Promise<void>;
}

/** An app's way to the database: Drizzle over a driver, with connections of its own. */
export type Driver = (url: string) => { db: object; end(): Promise<void> };

export interface ServerKind {
  readonly name: string;
  readonly lacks: Partial<Record<Need, string>>;
  readonly driver: Driver;
  readonly concerns?: readonly GroupName[];
  connect(url: string): Promise<Store>;
}

export interface ServerDialect {
  newHome(): Promise<Home>;
  earlier: Place["earlier"];
}

/** A DELETE takes 1 ms, where TRUNCATE waits 60 ms for the disk, and the migrations would take longer still. */
export const emptied = "delete from dbq_attempts; delete from dbq_workers; delete from dbq_tasks";

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

/** What an app does beside the store, until the place is removed. */
function appOf(driver: Driver, url: string): Pick<Place, "app" | "begin" | "remove"> {
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
      // Before its connections, which would wait for it.
      ends.unshift(() => transaction.rollback());
      return transaction;
    },
    remove: async () => {
      for (const end of ends) await end();
    },
  };
}

/** A transaction that ends when it is told to. */
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

/** A store on the app's own database, whose connections end with it. */
export async function onDatabaseOf(
  driver: Driver,
  url: string,
  open: (db: object) => Promise<Store>,
): Promise<Store> {
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
