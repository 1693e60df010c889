// @ts-check
/** Connects the heartbeat thread to Postgres. */

/** @typedef {{ host: string, port: number }} Host */

/**
 * @param {{ Client: typeof import("pg").Client }} pg
 * @returns {(config: import("pg").ClientConfig, host: Host, queryTimeout: number, onEnd: () => void) => Promise<object>}
 * `queryTimeout` in milliseconds
 */
exports.connectWith = (pg) => async (config, host, queryTimeout, onEnd) => {
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
    leave: () => {
      ended = true;
      return /** @type {any} */ (client).connection.stream;
    },
  };
};

/** Whether the server refused a statement since another transaction holds the row. @param {{ code?: string }} error */
exports.isHeld = ({ code }) => code === "55P03";
