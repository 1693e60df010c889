/** The benchmarks' own connection to a server: creates databases, fills tables and counts rows. */

/** Runs one statement; returns its rows as arrays. */
export type Asking = (text: string) => Promise<unknown[][]>;

export interface Connection {
  readonly rows: Asking;
  /** The single value of a single row, as a number. */
  number(text: string): Promise<number>;
  close(): Promise<void>;
}

/** @throws the driver's error */
export async function connect(url: string): Promise<Connection> {
  const { rows, close } = await (url.startsWith("postgres") ? toPostgres(url) : toMariadb(url));
  const number = async (text: string) => Number((await rows(text))[0]?.[0]);
  return { rows, number, close };
}

type Connected = Pick<Connection, "rows" | "close">;

async function toPostgres(url: string): Promise<Connected> {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url });
  // When the server ends the connection, the running query fails, and its error is enough.
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

/** Calls `use` with a connection, and closes it afterwards. */
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
 * Requests a checkpoint: otherwise the server would write the filled rows to the disk during the measurement. Called
 * for each contender before its clock starts. A user without the right goes without it.
 */
export async function settle(url: string): Promise<void> {
  if (!url.startsWith("postgres")) return;
  await withConnection(url, async ({ rows }) => await rows("checkpoint").catch(() => []));
}

/** In the order of an index: otherwise Postgres may read the table from its begin, with all tasks that have ended. */
const orders = { pending: "queue_name, func, priority desc", running: "worker_id" };

/** Resolves when no task of the function `step` is pending or running. */
export async function allEnded(rows: Asking): Promise<void> {
  for (const status of ["pending", "running", "pending"] as const) {
    const one = `select 1 from dbq_tasks where queue_name = 'default' and func = 'step' and status = '${status}'
      order by ${orders[status]} limit 1`;
    while ((await rows(one)).length > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
