/** What shows both the health of a queue and its causes looks at the workers and the tasks once. */
import { expect, test, vi } from "vitest";
import { healthWithCauses, inspectQueue } from "../../../src/features/inspect/health.ts";
import { internalsOf, requestsOf } from "../../../src/features/queue.ts";
import { type Queue, remoteTask } from "../../../src/index.ts";
import { queueOnFile } from "../../worker/setup.ts";

const nobody = remoteTask<() => Promise<void>>("nobody");

/** How often `use` reads the workers and the pending tasks. */
async function looksOf(queue: Queue, use: () => Promise<unknown>) {
  const stores = new Set([internalsOf(queue).store, requestsOf(queue)]);
  const workers = [...stores].map((store) => vi.spyOn(store, "workers"));
  const pending = [...new Set([...stores].map(({ health }) => health))].map((each) =>
    vi.spyOn(each, "backlog"),
  );
  await use();
  const calls = (spies: readonly { mock: { calls: unknown[] } }[]) =>
    spies.reduce((sum, { mock }) => sum + mock.calls.length, 0);
  const looks = { workers: calls(workers), pending: calls(pending) };
  vi.restoreAllMocks();
  return looks;
}

test("doctor, stats and top have the health and the causes of one look at workers and tasks", async () => {
  const { queue, raw } = await queueOnFile();
  await queue.enqueueTask(nobody);
  raw.exec("update dbq_tasks set updated_at = updated_at - 120000");
  const once = { workers: 1, pending: 1 };
  const keysOf = (causes: readonly { key: string }[]) => causes.map(({ key }) => key);
  const keys = keysOf(await queue.listCauses());
  expect(keys).toContain("unserved:default:nobody");
  expect(await looksOf(queue, () => queue.listCauses())).toEqual(once);
  for (const look of [inspectQueue, healthWithCauses]) {
    expect(keysOf((await look(queue)).causes)).toEqual(keys);
    expect(await looksOf(queue, () => look(queue))).toEqual(once);
  }
});
