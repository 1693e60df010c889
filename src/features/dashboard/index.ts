/** `dbq-ts/dashboard`: see the tasks of a queue in a browser, and steer them. */
export type { Action, Authorization, Grant } from "./access.ts";
export { type Dashboard, dashboard } from "./dashboard.ts";
export { toNodeHandler } from "./node.ts";
export type { DashboardOptions } from "./options.ts";
