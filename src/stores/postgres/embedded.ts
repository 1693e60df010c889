/** Files of the repository that the program needs: the build replaces this module by what it exports. */
import { readMigrations, readText } from "../sql/embed.ts";

export const migrations = readMigrations(new URL("../../../migrations/postgres", import.meta.url));
export const heartbeatConnector = readText(new URL("./heartbeat-connector.cjs", import.meta.url));
