// @ts-check
/** Connects the heartbeat thread to MySQL or MariaDB. */

/** @typedef {{ host: string, port: number }} Host */

/**
 * @param {typeof import("mysql2/promise")} mysql
 * @returns {(config: import("mysql2/promise").ConnectionOptions, host: Host, queryTimeout: number, onEnd: () => void) => Promise<object>}
 * `queryTimeout` in milliseconds
 */
exports.connectWith =
  (mysql) =>
  async (config, { host, port }, queryTimeout, onEnd) => {
    const client = await mysql.createConnection({
      ...config,
      ...(host.startsWith("/") ? { socketPath: host } : { host, port }),
    });
    let ended = false;
    const end = () => {
      if (!ended) onEnd();
      ended = true;
    };
    client.on("error", end);
    client.on("end", end);
    // Seconds: the heartbeats of other workers wait behind the one whose row is held.
    await client.query(
      "set session innodb_lock_wait_timeout = 1, autocommit = 1, completion_type = 0, sql_safe_updates = 0",
    );
    return {
      /** @param {string} sql @param {unknown[]} values */
      query: async (sql, values) => {
        const [result] = await client.query({ sql, values, rowsAsArray: true, timeout: queryTimeout });
        const { affectedRows = 0 } = /** @type {{ affectedRows?: number }} */ (result);
        return {
          rows: /** @type {unknown[][]} */ (Array.isArray(result) ? result : []),
          changed: affectedRows,
        };
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

/** Whether the server refused a statement since another transaction holds the row. @param {{ errno?: number }} error */
exports.isHeld = ({ errno }) => errno === 1205;
