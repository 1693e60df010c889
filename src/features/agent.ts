/** `dbq-ts/agent`: runs tasks on a machine without access to the database. Loads no database driver, and no Drizzle. */
import { openChildExecutors } from "./executors/executors.ts";
import { CodeLimits } from "./limits/code-limits.ts";
import { type AgentOptions, type AgentParts, Agent as ManagersAgent } from "./manager/agent/index.ts";

export { type AgentOptions, type AgentStopOptions, RefusedError } from "./manager/agent/index.ts";

/**
 * Runs tasks that Managers claim for it, those with `runIn` in threads and processes. It is an `EventEmitter` with the events of
 * a `Worker`. A function's `currentTask().within(tx)` throws: there is no database here.
 */
export class Agent<C = unknown> extends ManagersAgent<C> {
  /** @throws TypeError for a wrong option; UnregisteredFunctionError for an unregistered function in `tasks` */
  constructor(options: AgentOptions<C>) {
    super(options, parts);
  }
}

const parts: AgentParts = {
  openExecutors: openChildExecutors,
  // The outcome of a task says to the Manager that it throttles, and the Manager writes both.
  openClaims: (declare, host) => new CodeLimits({ declare, throttle: async () => undefined }, host),
};
