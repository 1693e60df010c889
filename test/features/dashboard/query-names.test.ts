/** What the API answers to names that do not exist. */
import { describe, expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { openDesk } from "./requests.ts";

const severalOf = (name: string) => `${name}: expected one value, got several`;

test.each([
  [
    "/api/tasks?statuss=failed",
    'there is no parameter "statuss" here; there are status, func, queue, group, schedule, requestId, uniqueKey, failure, meta, from, to, q, after, limit',
  ],
  ["/api/overview?range=1h&by=hour", 'there is no parameter "by" here; there is only range'],
  ["/api/functions?sorted=name", 'there is no parameter "sorted" here; there is only sort'],
  ["/api/queues?status=failed", 'there is no parameter "status" here; there are none'],
  ["/api/schedules?x", 'there is no parameter "x" here; there is only after'],
  ["/api/workers?limit=3", 'there is no parameter "limit" here; there are none'],
  ["/api/tasks/1?full=1", 'there is no parameter "full" here; there are none'],
  ["/api/tasks?status=failed&status=cancelled", "status: expected one value, got several"],
  [
    "/api/failures?func=a%00",
    'func: expected a well-formed string of 1 to 255 characters without NUL, got "a\\u0000"',
  ],
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

describe("a POST with what is not known is refused, and changes nothing:", () => {
  const none = "here; there is only reason";
  test.each([
    ["/api/tasks/1/retry", { func: "x" }, 'there is no field "func" here; there are fromStep, undo'],
    ["/api/tasks/1/run", { at: "now" }, `there is no field "at" ${none}`],
    ["/api/tasks/1/delete", { force: true }, `there is no field "force" ${none}`],
    ["/api/tasks/1/enqueue", { func: "x" }, 'there is no field "func" here; there are args, reason'],
    ["/api/tasks/1/cancel", { reasn: "x" }, 'there is no field "reasn" here; there is only reason'],
    ["/api/tasks/1/cancel?id=2", {}, 'there is no field "id" here; there is only reason'],
    [
      "/api/tasks/1/edit",
      { prio: 9 },
      'there is no field "prio" here; there are args, priority, queueName, waitUntil, generationId',
    ],
    ["/api/tasks/bulk?preview=true", { action: "delete", filter: {}, preview: false }, severalOf("preview")],
    ["/api/tasks/bulk?dry=1", { action: "delete", filter: {} }, 'there is no field "dry" here'],
    [
      "/api/queues/default/pause",
      { group: "acme" },
      'there is no field "group" here; there are name, reason',
    ],
    ["/api/queues/default/pause?name=mail", {}, severalOf("name")],
    ["/api/functions/pause?name=send", { gruop: "acme" }, 'there is no field "gruop" here'],
    [
      "/api/functions/pause?name=send&gruop=acme",
      {},
      'there is no field "gruop" here; there are name, group',
    ],
    ["/api/functions/pause?name=send&group=acme", { group: "globex" }, severalOf("group")],
    ["/api/functions/pause?name=send&group=", {}, "group: expected the name of a group, got nothing"],
    ["/api/functions/pause?name=send", { group: "" }, "group: expected the name of a group, got nothing"],
    ["/api/functions/pause?name=send", { group: null }, "group: expected the name of a group, got nothing"],
    ["/api/schedules/nightly/pause", { until: 1 }, 'there is no field "until" here; there are name, reason'],
    ["/api/limits?dry=1", { about: "queue", name: "mail", concurrency: 1 }, 'there is no field "dry" here'],
    [
      "/api/limits",
      { about: "queue", name: "mail", concurency: 1 },
      'there is no field "concurency" here; there are about, name, group, concurrency, rate, burst, remove',
    ],
  ])("%s with %o", async (path, body, message) => {
    const { queue, api } = await openDesk();
    await queue.enqueueTask(remoteTask("send"), 1);
    await queue.schedule("nightly", { every: "1h" }, remoteTask("send"));
    const state = async () => [
      await queue.listTasks(),
      await queue.listLimits(),
      await queue.listSchedules(),
    ];
    const before = await state();
    expect(await api(path, body)).toEqual({
      status: 400,
      body: { ok: false, message: expect.stringContaining(message) },
    });
    expect(await state()).toEqual(before);
  });

  test.each([
    [{ remove: "no" }, 'remove: expected true or false, got "no"'],
    [{ remove: false }, "give one of both"],
    [{ remove: true, concurrency: 3 }, "remove: expected it without concurrency and rate"],
    [{ concurrency: 3, group: "acme" }, 'group: only a function has groups, got "acme"'],
    [{ concurrency: 3, group: "acme", about: "name" }, 'group: only a function has groups, got "acme"'],
    [{ concurrency: 3, group: "", about: "func" }, "group: expected the name of a group, got nothing"],
    [{ concurrency: 3, burst: 5 }, "burst: expected a rate beside it, got 5 alone"],
  ])("a limit with %o", async (fields, message) => {
    const { queue, api } = await openDesk();
    await queue.setLimit({ queueName: "mail" }, { concurrency: 7 });
    expect(await api("/api/limits", { about: "queue", name: "mail", ...fields })).toEqual({
      status: 400,
      body: { ok: false, message: expect.stringContaining(message) },
    });
    expect(await queue.listLimits()).toMatchObject([{ target: { queueName: "mail" }, concurrency: 7 }]);
  });
});

test("the form of a limit sends all of its fields, and those that were left empty are not there", async () => {
  const { queue, post } = await openDesk();
  const fields = { about: "queue", name: "mail", group: "", concurrency: "", rate: "100/1m", burst: "" };
  expect(await (await post("/api/limits", fields)).text()).toContain("Queue mail is limited: 100 in 1m.");
  expect(await (await post("/api/limits", { ...fields, about: "func" })).text()).toContain(
    "Function mail is",
  );
  expect((await queue.listLimits()).map(({ target }) => target)).toEqual([
    { func: "mail" },
    { queueName: "mail" },
  ]);
});

test("a task is cancelled with the reason of the request", async () => {
  const { queue, api } = await openDesk();
  const id = await queue.enqueueTask(remoteTask("send"), 1);
  await api(`/api/tasks/${id}/cancel`, { reason: "sent twice" });
  expect((await queue.getTask(id))?.error?.message).toBe("sent twice");
});

test.each(["pause", "resume", "run"])("%s of a schedule that does not exist answers 404", async (action) => {
  const { api } = await openDesk();
  expect(await api(`/api/schedules/nightly/${action}`, {})).toEqual({
    status: 404,
    body: { ok: false, message: expect.stringContaining("nightly") },
  });
});
