/** What the API answers to names that do not exist. */
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { openDesk } from "./requests.ts";

test.each([
  [
    "/api/tasks?statuss=failed",
    'there is no parameter "statuss" here; there are status, func, queue, group, schedule, requestId, uniqueKey, meta, from, to, q, after, limit',
  ],
  ["/api/overview?range=1h&by=hour", 'there is no parameter "by" here; there are range'],
  ["/api/functions?sorted=name", 'there is no parameter "sorted" here; there are sort'],
  ["/api/queues?status=failed", 'there is no parameter "status" here; there is none'],
  ["/api/schedules?x", 'there is no parameter "x" here; there is none'],
  ["/api/workers?limit=3", 'there is no parameter "limit" here; there is none'],
  ["/api/tasks/1?full=1", 'there is no parameter "full" here; there is none'],
  ["/api/tasks?status=failed&status=cancelled", "status: expected one value, got several"],
])("GET %s is refused, and the answer names the parameter", async (path, message) => {
  const { queue, api } = await openDesk();
  await queue.enqueueTask(remoteTask("send"), 1);
  expect(await api(path)).toEqual({ status: 400, body: { ok: false, message } });
});

test("each parameter of each GET of the API is known", async () => {
  const { api } = await openDesk();
  const tasks =
    "status=failed&func=a&queue=b&group=c&schedule=d&requestId=e&uniqueKey=f&meta=a=1&from=2026-01-01&to=2026-01-02&q=x&after=9&limit=3";
  for (const path of [
    `tasks?${tasks}`,
    "overview?range=24h",
    "functions?sort=name",
    "queues",
    "workers",
    "schedules",
  ])
    expect([path, (await api(`/api/${path}`)).status]).toEqual([path, 200]);
});

test.each(["pause", "resume", "run"])("%s of a schedule that does not exist answers 404", async (action) => {
  const { api } = await openDesk();
  expect(await api(`/api/schedules/nightly/${action}`, {})).toEqual({
    status: 404,
    body: { ok: false, message: expect.stringContaining("nightly") },
  });
});
