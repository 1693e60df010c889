/** A connection of the benchmarks' own to a server: to make databases, to fill tables and to count rows. */

/** Runs one statement; its rows, as arrays of what the driver gives. */
export type Asking = (text: string) => Promise<unknown[][]>;

export interface Connection {
  readonly rows: Asking;
  /** The number that is the only value of the only row. */
  number(text: string): Promise<number>;
  close(): Promise<void>;
}

/** @throws what the driver says */
export async function connect(url: string): Promise<Connection> {
  const { rows, close } = await (url.startsWith("postgres") ? toPostgres(url) : toMariadb(url));
  const number = async (text: string) => Number((await rows(text))[0]?.[0]);
  return { rows, number, close };
}

type Connected = Pick<Connection, "rows" | "close">;

async function toPostgres(url: string): Promise<Connected> {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url });
  // A server that ends it has ended what was asked too, and that says so.
  client.on("error", () => undefined);
  await client.connect();
  return {
    rows: async (text) => (await client.query({ text, rowMode: "array" })).rows,
    close: () => client.end(),
  };
}

async function toMariadb(url: string): Promise<Connected> {
  const { createConnection } = await import("mysql2/promise");
  const client = await createConnection({ uri: url, rowsAsArray: true });
  return {
    rows: async (text) => {
      const [rows] = await client.query(text);
      return Array.isArray(rows) ? (rows as unknown[][]) : [];
    },
    close: () => client.end(),
  };
}

/** Gives `use` a connection, and closes it. */
export async function withConnection<T>(
  url: string,
  use: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await connect(url);
  try {
    return await use(connection);
  } finally {
    await connection.close();
  }
}

/**
 * Has the server write to the disk what was filled in: else it would do that at some moment of what is measured.
 * Asked of each contender before its clock starts. A user who may not ask for it goes without.
 */
export async function settle(url: string): Promise<void> {
  if (!url.startsWith("postgres")) return;
  await withConnection(url, async ({ rows }) => await rows("checkpoint").catch(() => []));
}
