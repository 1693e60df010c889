/** Files of the repository that the program needs: the build replaces this module by what it exports. */
import { readMigrations, readText } from "../sql/embed.ts";

export const migrations = readMigrations(new URL("../../../migrations/sqlite", import.meta.url));
export const heartbeatProgram = readText(new URL("./heartbeat-thread.cjs", import.meta.url));
