/** Runs shared work outside of the async context that triggered it: a batch belongs to no single request or task. */
import { AsyncLocalStorage } from "node:async_hooks";

/** Calls a function in the async context in which this module was loaded, and returns its result. */
export const inRootContext: <T>(fn: () => T) => T = AsyncLocalStorage.snapshot();
