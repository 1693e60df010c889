/** Hostile requests to a real server: each gets a short answer that says why, changes nothing, and fills no log. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { toNodeHandler } from "../../../src/features/dashboard/index.ts";
import { remoteTask } from "../../../src/index.ts";
import { basePath, served } from "./raw.ts";

const send = remoteTask("send");
const form = "application/x-www-form-urlencoded";
const nines = "9".repeat(4_000);

describe("addresses", () => {
  test.each([
    [`/tasks?after=${nines}`, 400, "after: expected a whole number from 0 to"],
    [`/tasks?limit=${nines}`, 400, "limit: expected a whole number from 1 to 200"],
    ["/tasks?limit=1e9", 400, "limit: expected a whole number from 1 to 200"],
    [`/tasks/${nines}`, 400, "id: expected a whole number from"],
    ["/tasks/%", 400, "id: expected a whole number from 1 to"],
    ["/tasks/%00", 400, "id: expected a whole number from"],
    ["/tasks?func=%00", 400, "func: expected a well-formed string of 1 to 255 characters"],
    ["/tasks?q=%00", 400, 'q: expected a well-formed text without NUL, got \\"\\\\u0000\\"'],
    ["/tasks?q=a%00b", 400, "q: expected a well-formed text without NUL"],
    ["/tasks?meta=user=%00", 400, "meta: expected a well-formed text without NUL"],
    ["/tasks?meta=%00=7", 400, "meta: expected a well-formed text without NUL"],
    ["/tasks?meta=user=%22%5Cud800%22", 400, "meta: expected a well-formed text without NUL"],
    [`/tasks?queue=${"q".repeat(300)}`, 400, "queueName: expected a well-formed string"],
    ["/tasks?from=99999999-01", 400, "from: expected a time such as"],
    ["/?range=__proto__", 400, "range: expected one of"],
    ["/functions?sort=constructor", 400, "sort: expected one of"],
    [`/tasks?q=${"x".repeat(9_000)}`, 414, "the address has more than 8192 characters"],
    [`/tasks?q=${"x".repeat(20_000)}`, 431, ""],
  ])("%.40s is answered with %i", async (path, status, message) => {
    const { get, errors } = await served();
    const answer = await get(
      path.startsWith("/tasks") || path.startsWith("/functions") ? `/api${path}` : path,
    );
    expect(answer.status).toBe(status);
    expect(answer.text).toContain(message);
    expect(answer.text.length).toBeLessThan(2_000);
    expect(errors).toEqual([]);
  });

  test.each([
    `${basePath}/../../etc/passwd`,
    `${basePath}/%2e%2e/%2e%2e/etc/passwd`,
    `${basePath}/files/../../../package.json`,
    `//evil.example${basePath}`,
    "/",
    `${basePath}x/tasks`,
  ])("GET %s leads out of the base path, and is not found", async (path) => {
    const { queue, port, send: raw } = await served();
    await queue.enqueueTask(send, "secret");
    const answer = await raw(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`);
    expect([answer.status, answer.text]).toEqual([404, expect.not.stringContaining("secret")]);
  });

  test.each(['evil"><script>', "a b", "[::1", "127.0.0.1:99999", ""])(
    "the host %o makes no page",
    async (host) => {
      const { send: raw, errors } = await served();
      const answer = await raw(
        `GET ${basePath}/tasks HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nAccept: text/html\r\n\r\n`,
      );
      expect([answer.status, answer.text]).toEqual([400, expect.not.stringContaining("script")]);
      expect(errors).toEqual([]);
    },
  );
});

describe("bodies", () => {
  test.each([
    "/api/tasks/1/edit",
    "/api/tasks/1/retry",
    "/api/tasks/1/delete",
    "/api/tasks/bulk",
    "/tasks/bulk",
    "/api/queues/default/pause",
    "/api/functions/send/pause",
    "/api/schedules/nightly/run",
    "/api/limits",
  ])("POST %s with more than 1 MiB is answered with 413, whether it says so before or not", async (path) => {
    const { queue, send: raw, port, post, errors } = await served();
    await queue.enqueueTask(send, 1);
    const body = JSON.stringify({ action: "delete", filter: {}, args: "x".repeat(1_048_576) });
    const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    const head = `POST ${basePath}${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\nAccept: application/json\r\n`;
    const answers = [
      await post(path, body),
      await raw(
        `${head}Authorization: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`,
      ),
    ];
    for (const { status, text } of answers)
      expect([status, text]).toEqual([413, expect.stringContaining("larger than 1048576 bytes")]);
    expect(await queue.countTasks()).toMatchObject({ pending: 1 });
    expect(errors).toEqual([]);
  });

  test("a body in thousands of chunks of one byte is refused before it ends", async () => {
    const { port, send: sendBytes, errors } = await served();
    const head = `POST ${basePath}/api/limits HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: x\r\nContent-Type: application/json\r\n`;
    const chunks = "1\r\n \r\n".repeat(5_000);
    const { status, text } = await sendBytes(
      `${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`,
    );
    expect([status, text, errors]).toEqual([400, expect.stringContaining("more than 1000 chunks"), []]);
  });

  test("a request that is broken off is no error of the app", async () => {
    const { queue, server, port, open, post, errors } = await served();
    await queue.enqueueTask(send, 1);
    const arrived = once(server, "request") as Promise<[IncomingMessage]>;
    const socket = open();
    socket.write(
      `POST ${basePath}/api/tasks/1/cancel HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a`,
    );
    const [request] = await arrived;
    const gone = new Promise((resolve) => request.once("close", resolve));
    socket.destroy();
    await gone;
    expect((await post("/api/tasks/1/edit", '{"priority":9}')).status).toBe(200);
    expect([(await queue.getTask(1))?.status, errors]).toEqual(["pending", []]);
  });

  test("a form of 200,000 names is read once, not once for each name", async () => {
    const { post } = await served();
    const body = Array.from({ length: 200_000 }, (_, i) => i.toString(36)).join("&");
    expect((await post("/api/limits", body, form)).status).toBe(400);
  });

  test.each([
    ["/api/limits", "a&".repeat(150_000), form],
    ["/api/limits", "a=1&".repeat(150_000), form],
    ["/tasks/bulk", Array.from({ length: 150_000 }, (_, i) => i.toString(36)).join("&"), form],
    [
      "/api/limits",
      JSON.stringify(Object.fromEntries(Array.from({ length: 90_000 }, (_, i) => [i, 1]))),
      undefined,
    ],
  ])("POST %s with more than 2,000 fields is answered with 400", async (path, body, type) => {
    const { post } = await served();
    const { status, text } = await post(path, body, type);
    expect([status, text]).toEqual([400, expect.stringContaining("there are more than 2000 fields")]);
  });

  const nested = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  test.each([
    ["/api/tasks/bulk", '{"action":{"toString":1}}', "action: expected a text or a number"],
    ["/api/tasks/bulk", `{"action":${nested}}`, "action: expected a text or a number"],
    ["/api/tasks/bulk", '{"action":"__proto__"}', "action: expected retry, edit, cancel, delete"],
    ["/api/tasks/bulk", '{"action":"cancel","ids":[{"toString":1}]}', "id: expected a text or a number"],
    ["/api/tasks/bulk", '{"action":"cancel","ids":[1],"after":{}}', "after: expected a text or a number"],
    ["/api/tasks/1/edit", `{"args":${nested}}`, "args[0][0]"],
    ["/api/tasks/1/edit", '{"args":{"toString":1}}', "args: expected a JSON array, got an object"],
    ["/api/tasks/1/edit", '{"priority":{"toString":1}}', "priority: expected a text or a number"],
    ["/api/tasks/1/edit", '{"queueName":"\\u0000"}', "queueName: expected a well-formed string"],
    ["/api/tasks/1/edit", '{"waitUntil":[1]}', "waitUntil: expected a text or a number"],
    ["/api/limits", '{"about":"queue","name":{"toString":1}}', "name: expected a text or a number"],
    [
      "/api/limits",
      '{"about":"name","name":"x","rate":{}}',
      "rate: expected how many in how long, such as 100/1m, got an object",
    ],
    ["/api/queues/%00/pause", "{}", "queueName: expected a well-formed string"],
    ["/api/functions/send/pause", '{"group":[]}', "group: expected a text or a number"],
    ["/api/limits", "null", "the body is JSON, and no object"],
    ["/api/limits", "{", "the body is not JSON"],
  ])("POST %s with %.44s is answered with 400", async (path, body, message) => {
    const { queue, post, errors } = await served();
    await queue.enqueueTask(send, 1);
    const before = await queue.getTask(1);
    const answer = await post(path, body);
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining(message)]);
    expect(await queue.getTask(1)).toEqual(before);
    expect(errors).toEqual([]);
  });

  test.each([
    ["/api/tasks/1/edit", `args=${nested}`, "args[0][0]"],
    ["/api/tasks/1/edit", `args=[{"a":${nested}}]`, "args[0].a[0]"],
    ["/api/tasks/1/edit", `priority=${nested}`, "priority: expected a whole number"],
    ["/api/limits", `about=${nested}&name=x`, "about: expected queue, func or name"],
  ])("POST %s with a form of 100,000 levels (%.24s) is answered with 400", async (path, body, message) => {
    const { queue, post, errors } = await served();
    await queue.enqueueTask(send, 1);
    const before = await queue.getTask(1);
    const answer = await post(path, body, form);
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining(message)]);
    expect(answer.text.length).toBeLessThan(2_000);
    expect(await queue.getTask(1)).toEqual(before);
    expect(errors).toEqual([]);
  });
});

test("a body that a framework has parsed, and that is nested too deeply, is answered with 400", async () => {
  const { queue, ui, server, post } = await served();
  const id = await queue.enqueueTask(send, 1);
  const handler = toNodeHandler(ui);
  const body = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`);
  server.removeAllListeners("request").on("request", async (request, response) => {
    for await (const _ of request);
    await handler(Object.assign(request, { body }), response);
  });
  const { status, text } = await post(`/api/tasks/${id}/cancel`, "{}");
  expect([status, text]).toEqual([400, expect.stringContaining("the body cannot be read")]);
  expect((await queue.getTask(id))?.status).toBe("pending");
});

describe("an action on many tasks", () => {
  test.each([
    ["{}", "expected the ids of tasks, or a filter"],
    ['{"ids":[1],"filter":{"func":"other"}}', "expected either ids or a filter, got both"],
    [
      '{"filter":{},"previw":true}',
      'there is no field "previw" here; there are action, ids, filter, preview',
    ],
    ['{"filter":{},"preview":"no"}', 'preview: expected true or false, got "no"'],
    ['{"filter":{},"step":100}', "step: expected true or false, got 100"],
    ['{"filter":{},"scope":"all"}', 'scope: expected ids or filter, got "all"'],
    ['{"filter":"send"}', "filter: expected an object"],
    ['{"filter":null}', "filter: expected an object"],
    ['{"filter":{"queueName":"mail"}}', 'filter: there is no "queueName"; there are status, func, queue'],
    ['{"filter":{"func":""}}', "filter.func is empty: leave it out for every func"],
    ['{"filter":{"func":null}}', "filter.func: expected a text or a number"],
    ['{"filter":{"status":[]}}', "filter.status is empty"],
    ['{"filter":{"meta":{"user":7}}}', "filter.meta: expected a text or a number"],
    ['{"filter.queueName":"mail"}', 'filter: there is no "queueName"'],
  ])("with %s is refused, and not taken for one on all tasks", async (fields, message) => {
    const { queue, post } = await served();
    await queue.enqueueTasks([
      [send, 1],
      [send, 2],
    ]);
    const answer = await post("/api/tasks/bulk", JSON.stringify({ action: "delete", ...JSON.parse(fields) }));
    expect([answer.status, JSON.parse(answer.text.split("\r\n\r\n")[1] ?? "").message]).toEqual([
      400,
      expect.stringContaining(message),
    ]);
    expect(await queue.countTasks()).toMatchObject({ pending: 2 });
  });

  test("takes several statuses as a list, and {} for all tasks", async () => {
    const { queue, post } = await served();
    await queue.enqueueTasks([[send], [send.with({ delay: "1h" })]] as const);
    const statuses = { action: "cancel", filter: { status: ["scheduled", "running"] } };
    expect((await post("/api/tasks/bulk", JSON.stringify(statuses))).text).toContain("1 task is cancelled");
    const all = await post("/api/tasks/bulk", JSON.stringify({ action: "delete", filter: {} }));
    expect(all.text).toContain("2 tasks are deleted");
  });
});
