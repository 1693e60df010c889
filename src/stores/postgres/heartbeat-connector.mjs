// @ts-check
/** Connects the heartbeat thread to Postgres. */
import pg from "pg";

/**
 * @param {import("pg").ClientConfig} config
 * @param {{ host: string, port: number }} host
 * @param {number} queryTimeout milliseconds
 * @param {() => void} onEnd
 */
export async function connect(config, host, queryTimeout, onEnd) {
  const client = new pg.Client({ ...config, ...host, query_timeout: queryTimeout });
  let ended = false;
  const end = () => {
    if (!ended) onEnd();
    ended = true;
  };
  await new Promise((resolve, reject) => {
    client.on("error", reject);
    client.connect().then(resolve, reject);
  });
  client.on("error", end);
  client.on("end", end);
  return {
    /** @param {string} text @param {unknown[]} values */
    query: async (text, values) => {
      const { rows, rowCount } = await client.query({ text, values, rowMode: "array" });
      return { rows, changed: rowCount ?? 0 };
    },
    end: async () => {
      ended = true;
      await client.end().catch(() => undefined);
    },
  };
}
