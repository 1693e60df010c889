/** An await times out on time, even if the database does not answer. */
import { expect, it } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { AwaitTimeoutError, remoteTask } from "../../src/index.ts";
import { deferred, temporaryQueue } from "../support/queue.ts";

it("an await times out in time although the database does not answer", async () => {
  const queue = await temporaryQueue();
  const id = await queue.enqueueTask(remoteTask("nobody"));
  const gone = deferred<never>();
  internalsOf(queue).store.findEnded = () => gone.promise;
  const ending = queue.awaitTaskCompletion(id, { timeout: 50 }).catch((error: unknown) => error);
  const late = new Promise((resolve) => setTimeout(() => resolve("nothing for 5 s"), 5_000));
  expect(await Promise.race([ending, late])).toBeInstanceOf(AwaitTimeoutError);
});
