/** `dbq-ts/testing/vitest`: adds the matchers of the test kit to vitest's `expect`, and their types. */
// In the declarations this import stays. Without one, compilers do not add to the types of vitest.
import "vitest";
import { expect } from "vitest";
import type { Enqueueable } from "../../base/tasks/enqueueable.ts";
import { type EnqueuedOptions, matchers, type OnServer } from "./matchers.ts";

expect.extend(matchers);

/** The matchers of the test kit. */
export interface TestQueueMatchers<T = unknown> {
  /**
   * The queue has a task of this function, with these arguments, which may have asymmetric matchers. On a server, await it.
   * @throws TypeError for a wrong option, and for what is no test queue
   */
  toHaveEnqueued(
    fn: Enqueueable | string,
    args?: readonly unknown[],
    options?: EnqueuedOptions,
  ): T extends OnServer ? Promise<void> : void;
}

declare module "vitest" {
  // biome-ignore lint/suspicious/noExplicitAny: the declaration that this one adds to has the same parameter.
  interface Assertion<T = any> extends TestQueueMatchers<T> {}
}
