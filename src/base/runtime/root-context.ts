/** Work for many tasks belongs to no request: it must not run in the async context of whichever one woke it. */
import { AsyncLocalStorage } from "node:async_hooks";

/** Calls a function in the context that this module was loaded in, and returns what it returns. */
export const inRootContext: <T>(fn: () => T) => T = AsyncLocalStorage.snapshot();
