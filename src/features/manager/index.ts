/** `dbq-ts/manager`: lets agents on other machines run tasks without access to the database. */
export { Manager, type ManagerEvents, type ManagerOptions } from "./server.ts";
export { type AddAgentOptions, type AgentInfo, addAgent, listAgents, revokeAgent } from "./tokens.ts";
