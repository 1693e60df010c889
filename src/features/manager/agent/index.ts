/** The agent of Managers. `src/features/agent.ts` gives it threads and processes, and is what users import. */
export { Agent, type AgentParts, RefusedError } from "./agent.ts";
export type { AgentOptions, AgentStopOptions } from "./options.ts";
