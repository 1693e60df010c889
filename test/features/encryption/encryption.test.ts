/** Encryption on SQLite. The others: `servers.full.test.ts`. */
import { describe, expect, test } from "vitest";
import { task } from "../../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { encryptionCases } from "./cases.ts";
import { columnsWith, newKey, onSqlite } from "./support.ts";

describe("on SQLite", () => encryptionCases(onSqlite));

test("an encrypted error is stored although the database refuses the record of its attempt", async () => {
  const raw = await onSqlite();
  const queue = await temporaryQueue({ encryption: { keys: [newKey("a")] } }, raw.target);
  const fails = task(uniqueName("fails"), () => Promise.reject(new Error("the secret")), { maxRetries: 0 });
  await raw.query("create trigger no before insert on dbq_attempts begin select raise(abort, 'no'); end");
  await startedWorker(queue);
  const failed = await queue.awaitTaskCompletion(await queue.enqueueTask(fails), { timeout: "20s" });
  expect(failed).toMatchObject({ status: "failed", error: { message: "the secret" } });
  expect(await columnsWith(raw, "the secret")).toEqual([]);
});

test("a function of the app's whose name begins as dbq's own ones is encrypted as any other", async () => {
  const raw = await onSqlite();
  const queue = await temporaryQueue({ encryption: { keys: [newKey("a")] } }, raw.target);
  const echo = task(uniqueName("dbq.echo"), async (text: string) => text);
  await startedWorker(queue);
  expect(await queue.awaitTaskResult(await queue.enqueueTask(echo, "the secret"))).toBe("the secret");
  expect(await columnsWith(raw, "the secret")).toEqual([]);
});

test("a signal of the process, or a timer, can call off a reencrypt of a file", async () => {
  const queue = await temporaryQueue({ encryption: { keys: [newKey("a")] } });
  const echo = task(uniqueName("echo"), async (text: string) => text);
  await queue.enqueueTasks(Array.from({ length: 500 }, (_, i) => [echo, String(i)] as const));
  const stop = new AbortController();
  let transactions = 0;
  const onProgress = () => {
    transactions += 1;
    // As a signal's listener is: called by the event loop.
    if (transactions === 1) setImmediate(() => stop.abort(new Error("Ctrl-C")));
  };
  await expect(queue.reencrypt({ signal: stop.signal, onProgress })).rejects.toThrow("Ctrl-C");
  expect(transactions).toBeLessThan(5);
});
