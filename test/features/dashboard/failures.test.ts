/** The page of kinds of failures, that of one kind, and what a person can do to all of its tasks. */
import { expect, test } from "vitest";
import { queueOnFile } from "../../worker/setup.ts";
import { failed } from "./failure-scene.ts";
import { openDesk } from "./requests.ts";

async function desk(options = {}) {
  const { queue, path } = await queueOnFile();
  return { ...(await openDesk(options, queue)), ...failed(path) };
}

test("the page has a row for each kind, those with the most failed tasks first, and a time to choose", async () => {
  const { get, api, ids } = await desk();
  const text = await (await get("/failures")).text();
  const places = ids.map((id) => text.indexOf(`/failures/${id}`));
  expect(places.every((place) => place > 0)).toBe(true);
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect(text).toContain("PaymentError: the card issuer did not answer");
  expect(text).toContain("GET https://stock.example failed with &lt;n&gt;");
  expect(text).toContain(`href="/tasks?failure=${ids[0]}"`);
  const { failures } = (await api("/api/failures?range=1h")).body as {
    failures: { id: string; count: number }[];
  };
  expect(failures.map(({ id }) => id)).toEqual(ids);
  expect(failures[2]?.count).toBe(401);
  expect((await api("/api/failures?range=30d")).body).toMatchObject({ range: "30d" });
  expect(await api("/api/failures?range=2h")).toMatchObject({
    status: 400,
    body: { message: 'range: expected one of 1h, 24h, 7d, 30d, got "2h"' },
  });
});

test("a queue without failures says so", async () => {
  const { get } = await openDesk();
  expect(await (await get("/failures")).text()).toContain("No task is failed, and no attempt has failed");
});

test("the page of a kind has an error with its stack, its figures, and the tasks by the filter", async () => {
  const { get, api, ids, task, queue } = await desk();
  const text = await (await get(`/failures/${ids[0]}`)).text();
  expect(text).toContain("at charge (/app/src/tasks/charge.ts:42:11)");
  expect(text).toContain("Show all 212 tasks");
  expect(text).toContain(`dbq retry --failure ${ids[0]}`);
  expect((await api(`/api/failures/${ids[0]}`)).body).toMatchObject({
    failure: { open: 212 },
    sample: { func: "charge-card" },
  });
  const { tasks } = (await api(`/api/tasks?failure=${ids[0]}&limit=200`)).body as {
    tasks: { func: string }[];
  };
  expect(new Set(tasks.map(({ func }) => func))).toEqual(new Set(["charge-card"]));
  expect(tasks).toHaveLength(200);
  expect(await (await get(`/tasks/${task}`)).text()).toContain(`href="/failures/${ids[0]}"`);
  // The sample has completed since: one of its attempts has the error.
  const gone = await (await get(`/failures/${ids[5]}`)).text();
  expect(gone).toContain("No task is failed with it now.");
  expect(gone).toMatch(/duplicate key value violates unique constraint (&quot;|")orders_pkey/);
  await queue.deleteTasks({ func: "import-orders" });
  expect((await get("/failures/000000000000")).status).toBe(404);
});

test("all tasks of a kind are retried: the count is said before and afterwards, and no other task is changed", async () => {
  const { post, api, ids, queue } = await desk();
  const fields = { action: "retry", scope: "filter", "filter.failure": String(ids[0]) };
  const asked = await (await post("/tasks/bulk", fields)).text();
  expect(asked).toContain("This will retry 212 tasks.");
  expect(asked).toContain(`They are the tasks of the kind of failure ${ids[0]} that are`);
  const done = await (await post("/tasks/bulk", { ...fields, confirmed: "yes" })).text();
  expect(done).toContain("212 tasks are retried.");
  expect(await queue.countTasks()).toMatchObject({ pending: 212, failed: 79 });
  expect((await api(`/api/failures/${ids[0]}`)).body).toMatchObject({ failure: { open: 0 } });
  const filter = { failure: ids[1] };
  expect((await api("/api/tasks/bulk", { action: "delete", filter, preview: true })).body).toMatchObject({
    count: 61,
    complete: true,
  });
  expect((await api("/api/tasks/bulk", { action: "cancel", filter, preview: true })).body).toMatchObject({
    count: 0,
  });
});

test("a person who may only look gets no buttons", async () => {
  const { get, ids } = await desk({ authorize: () => "read" });
  const text = await (await get(`/failures/${ids[0]}`)).text();
  expect(text).toContain("Show all 212 tasks");
  expect(text).not.toContain("Retry all");
});

test("what `redact` hides of the sample's error, its kind does not tell", async () => {
  const { get, api, ids } = await desk({
    redact: (task: { func: string; error: unknown }) =>
      task.func === "charge-card" ? { ...task, error: { name: "Hidden", message: "hidden" } } : task,
  });
  const text = await (await get("/failures")).text();
  expect(text).not.toContain("card issuer");
  expect(text).toContain("PaymentError (its message is hidden)");
  expect(text).toContain("no template");
  const one = JSON.stringify((await api(`/api/failures/${ids[0]}`)).body);
  expect(one).not.toContain("card issuer");
});
