/** `dbq-ts/drain`: carries the tasks of a queue into another one, such as BullMQ. */
export { Drain, drain } from "./drain.ts";
export type { DrainEvents } from "./events.ts";
export type { DrainOptions } from "./options.ts";
export {
  BrokerUnavailableError,
  type DrainAnswer,
  type DrainMessage,
  type DrainTarget,
  type MessageOptions,
} from "./target.ts";
