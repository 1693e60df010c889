/** `dbq-ts/agent`: runs tasks on a machine without access to the database. Loads no database driver, and no Drizzle. */
export { Agent, RefusedError } from "./agent.ts";
export type { AgentOptions, AgentStopOptions } from "./options.ts";
