/** Who sees and changes what. Each test attacks a rule of the dashboard. */
import { describe, expect, test, vi } from "vitest";
import {
  type Authorization,
  type DashboardOptions,
  dashboard,
} from "../../../src/features/dashboard/index.ts";
import { localDashboard } from "../../../src/features/dashboard/local.ts";
import { remoteTask, type Task } from "../../../src/index.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { asBrowser, openDesk, origin } from "./requests.ts";

const send = remoteTask("send");
const pagePaths = [
  "/",
  "/tasks",
  "/tasks/1",
  "/failures",
  "/workflows",
  "/workflows/1",
  "/queues",
  "/schedules",
  "/workers",
  "/functions",
];

describe("closed by default", () => {
  test("without authorize every address answers 403, files and live updates included", async () => {
    const queue = await temporaryQueue();
    await queue.enqueueTask(send, "secret");
    const ui = dashboard(queue);
    const paths = [
      ...pagePaths,
      "/api/overview",
      "/api/tasks",
      "/events",
      "/metrics",
      "/files/dashboard.js",
      "/nothing",
    ];
    for (const path of paths) {
      const response = await ui(new Request(`${origin}${path}`));
      expect([path, response.status]).toEqual([path, 403]);
      expect(await response.text()).not.toContain("secret");
    }
    const post = await ui(new Request(`${origin}/api/tasks/1/cancel`, { method: "POST" }));
    expect(post.status).toBe(403);
    expect((await queue.getTask(1))?.status).toBe("pending");
    await ui.close();
  });

  test("who is refused by the API gets JSON, and who is refused by a page a line of text", async () => {
    const { ui, queue } = await openDesk({
      basePath: "/ops",
      authorize: ({ headers }) => (headers.has("authorization") ? "all" : "none"),
    });
    const id = await queue.enqueueTask(send, 1);
    const headers = { authorization: "Bearer x", origin: "https://evil.example" };
    const unknown = { ok: false, message: "you may not see this dashboard" };
    const foreign = { ok: false, message: "this did not come from a page of the dashboard" };
    for (const [path, init, expected] of [
      ["/api/tasks", {}, unknown],
      [`/api/tasks/${id}/cancel`, { method: "POST" }, unknown],
      [`/api/tasks/${id}/cancel`, { method: "POST", headers }, foreign],
    ] as const) {
      const answer = await ui(new Request(`${origin}/ops${path}`, init));
      expect([answer.status, await answer.json()]).toEqual([403, expected]);
      expect(answer.headers.get("cache-control")).toBe("no-store");
    }
    expect(await (await ui(new Request(`${origin}/ops/tasks`))).text()).toBe(
      "403: you may not see this dashboard",
    );
  });

  test.each([
    ["none", 403],
    ["read", 200],
    ["all", 200],
    [["retry"], 200],
    [{ allow: "none", actor: "eva" }, 403],
    [{ allow: ["cancel"], actor: "eva" }, 200],
    [undefined, 403],
  ] as [Authorization, number][])("authorize gives %o: %i", async (answer, status) => {
    const { get } = await openDesk({ authorize: async () => answer });
    expect((await get("/tasks")).status).toBe(status);
  });

  test.each(["everything", ["retry", "fly"], 7])(
    "an answer of authorize that is none, %o, shows nothing",
    async (answer) => {
      const { get, errors } = await openDesk({ authorize: () => answer as Authorization });
      expect((await get("/tasks")).status).toBe(500);
      expect(String(errors[0])).toContain("dashboard: authorize: expected");
    },
  );

  test("an authorize that throws answers 500 without its message", async () => {
    const { get, errors } = await openDesk({
      authorize: () => {
        throw new Error("the session store of app-7 is down");
      },
    });
    const response = await get("/tasks");
    expect([response.status, await response.text()]).toEqual([500, expect.not.stringContaining("app-7")]);
    expect(errors).toHaveLength(1);
  });
});

describe("writes", () => {
  const writes = ["retry", "cancel", "run", "edit", "delete", "enqueue"];

  test.each(writes)("%s needs its own permission", async (action) => {
    const others = writes.filter((each) => each !== action) as never;
    const { queue, post } = await openDesk({ authorize: () => others });
    const id = await queue.enqueueTask(send.with({ delay: "1h" }), 1);
    const before = await queue.getTask(id);
    expect((await post(`/api/tasks/${id}/${action}`, { priority: "9" })).status).toBe(403);
    expect(await queue.getTask(id)).toEqual(before);
    expect(await queue.countTasks()).toMatchObject({ scheduled: 1 });
  });

  test("who may only read sees no button", async () => {
    const { queue, get } = await openDesk({ authorize: () => "read" });
    const id = await queue.enqueueTask(send, 1);
    for (const path of ["/tasks", `/tasks/${id}`])
      expect(await (await get(path)).text()).not.toContain('method="post"');
  });

  test.each([
    [{ "sec-fetch-site": "cross-site" }, 403],
    [{ "sec-fetch-site": "same-site" }, 403],
    [{ "sec-fetch-site": "none" }, 403],
    [{ "sec-fetch-site": "cross-site", authorization: "Bearer x" }, 403],
    [{ origin: "https://evil.example" }, 403],
    [{ origin: "null" }, 403],
    [{ origin: "https://ops.example.evil.example" }, 403],
    [{ origin: "https://evil.example", authorization: "Bearer x" }, 403],
    [{}, 403],
    [{ origin }, 200],
    [{ authorization: "Bearer x" }, 200],
    [{ "sec-fetch-site": "same-origin" }, 200],
  ])("a POST with %o answers %i", async (headers, status) => {
    const { queue, ui } = await openDesk();
    const id = await queue.enqueueTask(send, 1);
    const given = { host: "ops.example", accept: "application/json", ...(headers as Record<string, string>) };
    const response = await ui(
      new Request(`${origin}/api/tasks/${id}/cancel`, { method: "POST", headers: given }),
    );
    expect(response.status).toBe(status);
    expect((await queue.getTask(id))?.status).toBe(status === 200 ? "cancelled" : "pending");
  });

  test.each([
    // A plain handler of requests, which have no `Host`: the address is the origin.
    ["https://ops.example", { origin: "https://ops.example" }, 200],
    ["https://ops.example", { origin: "https://evil.example" }, 403],
    ["http://ops.example:8080", { origin: "http://ops.example:8080" }, 200],
    ["http://ops.example:8080", { origin: "http://ops.example" }, 403],
    // The address is a server's own, and `Host` is the browser's.
    ["http://localhost:3000", { host: "ops.example", origin: "http://ops.example" }, 200],
    ["http://localhost:3000", { host: "ops.example", origin: "http://localhost:3000" }, 403],
    ["http://localhost:3000", { host: "OPS.example:80", origin: "http://ops.example" }, 200],
    ["http://localhost:3000", { host: "::nonsense::", origin: "http://localhost:3000" }, 200],
    // Another scheme is another site.
    ["http://ops.example", { origin: "https://ops.example" }, 403],
    ["https://ops.example", { origin: "http://ops.example" }, 403],
  ])("at %s without an option, a POST with %o answers %i", async (at, headers, status) => {
    expect(await cancelledBy({}, at, headers)).toBe(status);
  });

  test.each([
    [{ host: "127.0.0.1:8080", origin: "http://intranet.local" }, 200],
    [{ host: "127.0.0.1:8080", origin: "http://intranet.local", "sec-fetch-site": "same-origin" }, 200],
    [{ host: "127.0.0.1:8080", "sec-fetch-site": "same-origin" }, 200],
    [{ host: "127.0.0.1:8080", authorization: "Bearer x" }, 200],
    [{ host: "127.0.0.1:8080", origin: "http://127.0.0.1:8080" }, 403],
    [{ host: "evil.example", origin: "http://evil.example", "sec-fetch-site": "same-origin" }, 403],
    [{ host: "intranet.local", origin: "https://intranet.local" }, 403],
    [{ host: "intranet.local", origin: "http://intranet.local:8080" }, 403],
    [{ host: "intranet.local", origin: "http://intranet.local", "sec-fetch-site": "cross-site" }, 403],
    [{ host: "intranet.local" }, 403],
  ] as [Record<string, string>, number][])(
    "with the option origin, a POST with %o answers %i",
    async (headers, status) => {
      const options = { origin: "http://intranet.local" };
      expect(await cancelledBy(options, "http://127.0.0.1:8080", headers)).toBe(status);
    },
  );

  test.each(["intranet.local", "ftp://intranet.local", "http://intranet.local/ops", "http://a@b", 7])(
    "the option origin %o is refused",
    async (wrong) => {
      const queue = await temporaryQueue();
      expect(() => dashboard(queue, { origin: wrong as string })).toThrow(
        /dashboard: origin: expected an origin/,
      );
    },
  );

  /** The status of a POST that would cancel a task. */
  async function cancelledBy(options: DashboardOptions, at: string, headers: Record<string, string>) {
    const { queue, ui } = await openDesk(options);
    const id = await queue.enqueueTask(send, 1);
    const given = { accept: "application/json", ...headers };
    const { status } = await ui(
      new Request(`${at}/api/tasks/${id}/cancel`, { method: "POST", headers: given }),
    );
    expect((await queue.getTask(id))?.status).toBe(status === 200 ? "cancelled" : "pending");
    return status;
  }

  test.each([
    "/api/tasks/1/edit",
    "/api/tasks/bulk",
    "/tasks/bulk",
    "/api/queues/default/pause",
    "/api/functions/send/pause",
    "/api/schedules/nightly/run",
    "/api/limits",
  ])("of somebody who may only read, the body of POST %s is not read", async (path) => {
    const { ui } = await openDesk({ authorize: () => "read" });
    const pull = vi.fn();
    const body = new ReadableStream({ pull }, { highWaterMark: 0 });
    const headers = { ...asBrowser, "content-type": "application/json", accept: "application/json" };
    const init = { method: "POST", body, headers, duplex: "half" } as RequestInit;
    const { status } = await ui(new Request(`${origin}${path}`, init));
    expect([status, pull.mock.calls.length]).toEqual([403, 0]);
  });

  test("GET changes nothing", async () => {
    const { queue, get } = await openDesk();
    const id = await queue.enqueueTask(send, 1);
    expect((await get(`/api/tasks/${id}/cancel`)).status).toBe(404);
    expect((await queue.getTask(id))?.status).toBe("pending");
  });

  test("a body of more than 1 MiB is refused, and so is one of another type", async () => {
    const { queue, ui, post } = await openDesk();
    const id = await queue.enqueueTask(send.with({ delay: "1h" }), 1);
    expect((await post(`/api/tasks/${id}/edit`, { args: "x".repeat(1_100_000) })).status).toBe(413);
    const headers = { "sec-fetch-site": "same-origin", "content-type": "text/plain" };
    const plain = new Request(`${origin}/api/tasks/${id}/cancel`, {
      method: "POST",
      body: '{"a":1}',
      headers,
    });
    expect((await ui(plain)).status).toBe(400);
    expect((await queue.getTask(id))?.status).toBe("scheduled");
  });
});

describe("what an answer may do", () => {
  test("each answer forbids frames, foreign and inline scripts, guessing of types and caching", async () => {
    const { queue, get } = await openDesk();
    await queue.enqueueTask(send, 1);
    for (const path of [...pagePaths, "/api/tasks", "/nothing"]) {
      const { headers } = await get(path);
      expect(headers.get("content-security-policy")).toMatch(
        /default-src 'none'.*script-src 'self';.*frame-ancestors 'none'/,
      );
      expect(headers.get("content-security-policy")).not.toContain("unsafe");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
    }
  });

  test("hostile names, arguments and messages are text in every page", async () => {
    const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>'`;
    const { queue, get, post } = await openDesk();
    const hostile = remoteTask(evil).with({
      queueName: evil,
      uniqueKey: evil,
      requestId: evil,
      kwargs: { [evil]: evil },
      meta: { [evil]: evil },
      delay: "1h",
    });
    const id = await queue.enqueueTask(hostile, evil);
    await queue.cancelTask(id, { reason: evil });
    const search = new URLSearchParams({ func: evil, queue: evil, q: evil, meta: `${evil}=${evil}` });
    const answers = [
      ...(await Promise.all(pagePaths.map((path) => get(path)))),
      await get(`/tasks?${search}`),
      await get(`/tasks?status=${encodeURIComponent(evil)}`),
      await post(`/api/tasks/${id}/${encodeURIComponent(evil)}`),
      await post("/tasks/bulk", { action: "retry", scope: "filter", "filter.func": evil }),
    ];
    for (const answer of answers) {
      const html = await answer.text();
      expect(html).not.toMatch(/<script>|<img/);
      expect([...html.matchAll(/<script(?![^>]*\ssrc="\/)/g)]).toEqual([]);
      const withoutValues = html.replace(/"[^"]*"/g, '""');
      expect(withoutValues).not.toMatch(/<[a-z][^>]*\s(?:style|on\w+)=/);
    }
  });

  test("redact shapes what every page and answer shows, and an error of it shows nothing", async () => {
    const redact = vi.fn((task) => ({ ...task, args: ["***"], error: null, uniqueKey: null }));
    const { queue, get, api } = await openDesk({ redact });
    const id = await queue.enqueueTask(send.with({ uniqueKey: "secret-key" }), "secret");
    await queue.cancelTask(id, { reason: "secret reason" });
    for (const path of ["/tasks", `/tasks/${id}`, "/", "/workers", "/queues", "/functions"])
      expect([path, await (await get(path)).text()]).toEqual([path, expect.not.stringContaining("secret")]);
    for (const path of ["/api/tasks", `/api/tasks/${id}`, "/api/overview"])
      expect(JSON.stringify((await api(path)).body)).not.toContain("secret");
    redact.mockImplementation(() => {
      throw new Error("cannot redact secret");
    });
    for (const path of ["/tasks", `/tasks/${id}`]) {
      const response = await get(path);
      expect([response.status, await response.text()]).toEqual([500, expect.not.stringContaining("secret")]);
    }
  });
});

test("redact shapes the failed tasks of the overview and the running ones of the workers", async () => {
  const redact = (shown: Task) => ({ ...shown, args: ["***"], error: null, requestId: null });
  const { queue, api } = await openDesk({ redact });
  await queue.enqueueTask(send.with({ requestId: "secret" }), "secret");
  await queue.enqueueTask(send.with({ requestId: "secret" }), "secret");
  await queue.transaction((tx) => {
    const run = (text: string) => (tx as never as { run(sql: string): void }).run(text);
    const error = JSON.stringify({ name: "Error", message: "secret", stack: "secret" });
    run(`update dbq_tasks set status = 'failed', finished_at = updated_at, error = '${error}' where id = 1`);
    run("update dbq_tasks set status = 'running', worker_id = 'w', started_at = updated_at where id = 2");
    run(`insert into dbq_workers (id, queue_names, concurrency, lease, host, pid, started_at, heartbeat_at)
      values ('w', '["default"]', 1, 600000, 'h', 1, ${Date.now()}, ${Date.now()})`);
  });
  const overview = (await api("/api/overview")).body.failedTasks as Task[];
  const workers = (await api("/api/workers")).body.workers as { running: Task[] }[];
  const shown = [...overview, ...workers.flatMap(({ running }) => running)];
  expect(shown.map(({ id, args, error, requestId }) => [id, args, error, requestId])).toEqual([
    [1, ["***"], null, null],
    [2, ["***"], null, null],
  ]);
});

describe("addresses", () => {
  test.each([
    "/%2e%2e/ops",
    "/..%2f..%2fetc/passwd",
    "/files/../../package.json",
    "/files/%2e%2e%2fpackage.json",
    "//evil.example",
  ])("%s leads nowhere", async (path) => {
    const { get } = await openDesk({ basePath: "/ops/dbq" });
    expect((await get(path)).status).toBe(404);
  });

  test("under a base path all links stay below it, and what is beside it is not found", async () => {
    const { queue, get, ui } = await openDesk({ basePath: "/ops/dbq" });
    await queue.enqueueTask(send, 1);
    for (const path of pagePaths) {
      const response = await get(path);
      expect([path, response.status]).toEqual([path, 200]);
      const links = [...(await response.text()).matchAll(/(?:href|src|action)="([^"]*)"/g)].map(
        ([, link]) => link ?? "",
      );
      const outside = links.filter((link) => !/^\/ops\/dbq(?:\/|$)|^#|^data:,$/.test(link));
      expect(outside).toEqual([]);
    }
    expect((await ui(new Request(`${origin}/tasks`, { headers: { accept: "text/html" } }))).status).toBe(404);
    expect(
      (await ui(new Request(`${origin}/ops/dbqx/tasks`, { headers: { accept: "text/html" } }))).status,
    ).toBe(404);
  });

  test("a proxy may cut the base path off when it names it, and no other prefix is taken", async () => {
    const { queue, ui, post } = await openDesk({ basePath: "/ops/dbq" });
    const id = await queue.enqueueTask(send, 1);
    const at = async (path: string, prefix: string) => {
      const headers = { accept: "text/html", "x-forwarded-prefix": prefix };
      const response = await ui(new Request(`${origin}${path}`, { headers }));
      return { status: response.status, html: await response.text() };
    };
    for (const [path, prefix] of [
      ["/", "/ops/dbq"],
      ["/tasks", "/ops/dbq/"],
      [`/tasks/${id}?x=1`, "/ops/dbq"],
    ] as const) {
      const { status, html } = await at(path, prefix);
      expect([path, status]).toEqual([path, 200]);
      expect(html).toContain('<a href="/ops/dbq/tasks"');
      expect(html).toContain(`events?of=${encodeURIComponent(path).replace(/%3Fx%3D1/, "%3Fx%3D1")}"`);
    }
    for (const [path, prefix] of [
      ["/tasks", "/ops"],
      ["/tasks", "//evil.example"],
      ["/ops/dbq/tasks", "/ops/dbq"],
    ] as const)
      expect([prefix, (await at(path, prefix)).status]).toEqual([prefix, 404]);
    expect((await post("/tasks/bulk", { action: "cancel", id: String(id), confirmed: "yes" })).status).toBe(
      200,
    );
  });

  test("a way back never leads to another host", async () => {
    const { get } = await openDesk();
    for (const path of ["//evil.example/tasks", "/\\evil.example/", "/.//evil.example/"])
      expect(await (await get("/nothing", { referer: `${origin}${path}` })).text()).toContain(
        '<a href="/evil.example/',
      );
  });

  test("an address of more than 8,192 characters is refused, and one of as many is read", async () => {
    const { get } = await openDesk();
    const of = (length: number) => `/tasks?q=${"x".repeat(length - `${origin}/tasks?q=`.length)}`;
    expect((await get(of(8_193))).status).toBe(414);
    expect((await get(of(8_192))).status).toBe(200);
  });

  test("an id that JavaScript does not hold exactly shows no other task", async () => {
    const { get } = await openDesk();
    expect((await get("/tasks/9007199254740993")).status).toBe(400);
    expect((await get("/tasks/1.0")).status).toBe(400);
    expect((await get("/tasks/0x1")).status).toBe(400);
  });
});

describe("the dashboard of `dbq dashboard`", () => {
  const at = (path: string, headers: Record<string, string> = {}) =>
    new Request(`http://127.0.0.1:7421${path}`, {
      headers: { host: "127.0.0.1:7421", accept: "text/html", ...headers },
    });

  test("its token is exchanged for a cookie, and gone from the address", async () => {
    const { handle, token } = localDashboard(await temporaryQueue());
    expect((await handle(at("/"))).status).toBe(403);
    const exchanged = await handle(at(`/tasks?status=failed&token=${token}`));
    expect([exchanged.status, exchanged.headers.get("location")]).toEqual([303, "/tasks?status=failed"]);
    const cookie = exchanged.headers.get("set-cookie") ?? "";
    expect(cookie).toMatch(/HttpOnly; SameSite=Strict/);
    expect((await handle(at("/", { cookie: cookie.split(";")[0] ?? "" }))).status).toBe(200);
    await handle.close();
  });

  test("its cookie is a session of this port alone, and not the token; each browser has its own", async () => {
    const { handle, token } = localDashboard(await temporaryQueue());
    const open = async () =>
      (await handle(at(`/?token=${token}`))).headers.get("set-cookie")?.split(";")[0] ?? "";
    const [first, second] = [await open(), await open()];
    expect(first).toMatch(/^dbq-7421=[\w-]{43}$/);
    expect([first.includes(token), first === second]).toEqual([false, false]);
    const statusOf = async (cookie: string) => (await handle(at("/", { cookie }))).status;
    expect(await statusOf(first)).toBe(200);
    expect(await statusOf(second)).toBe(200);
    expect(await statusOf(`theme=dark; dbq-7421=of-another-path; ${first}`)).toBe(200);
    expect(await statusOf(`dbq-7421=${token}`)).toBe(403);
    expect(await statusOf(first.replace("7421", "7422"))).toBe(403);
    const session = first.split("=")[1] ?? "";
    expect((await handle(at("/", { authorization: `Bearer ${session}` }))).status).toBe(403);
    expect((await handle(at(`/?token=${session}`))).status).toBe(403);
    await handle.close();
  });

  test.each([
    "//evil.test/",
    "///evil.test/",
    "/\\evil.test/",
    "/.//evil.test/",
    "/%2e//evil.test/",
    "/x/..//evil.test/",
    "//evil.test/%5c..//evil.test/",
    "/%09//evil.test/",
    "//evil.test\\@evil.test/",
    "/?next=//evil.test/",
  ])("the token at %s leads to no other host", async (path) => {
    const { handle, token } = localDashboard(await temporaryQueue());
    const sign = path.includes("?") ? "&" : "?";
    const exchanged = await handle(at(`${path}${sign}token=${token}`));
    const location = exchanged.headers.get("location") ?? "";
    expect(exchanged.status).toBe(303);
    expect(new URL(location, "http://127.0.0.1:7421").origin).toBe("http://127.0.0.1:7421");
    expect(location).toMatch(/^\/(?![\\/])/);
    await handle.close();
  });

  test("behind a proxy it answers to the proxy's name, its cookie is of its path, and over HTTPS secure", async () => {
    const options = { origin: "https://ops.example", basePath: "/dbq" };
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(send, 1);
    const { handle, token } = localDashboard(queue, options);
    for (const [path, headers] of [
      ["/dbq/tasks", { host: "ops.example" }],
      ["/tasks", { host: "127.0.0.1:8080", "x-forwarded-prefix": "/dbq" }],
    ] as [string, Record<string, string>][]) {
      const exchanged = await handle(at(`${path}?token=${token}`, headers));
      expect(exchanged.headers.get("location")).toBe("/dbq/tasks");
      const cookie = exchanged.headers.get("set-cookie") ?? "";
      expect(cookie).toMatch(/; HttpOnly; SameSite=Strict; Path=\/dbq; Secure$/);
      const session = { ...headers, cookie: cookie.split(";")[0] ?? "" };
      expect((await handle(at(path, session))).status).toBe(200);
      const act = new Request(at(path.replace("tasks", `api/tasks/${id}/cancel`), session), {
        method: "POST",
      });
      act.headers.set("origin", "https://ops.example");
      expect((await handle(act)).status).toBe(200);
    }
    expect((await handle(at(`/dbq/?token=${token}`, { host: "evil.example" }))).status).toBe(421);
    await handle.close();
  });

  test.each(["", "x", "A".repeat(43)])("the guessed token %o is refused", async (guess) => {
    const { handle } = localDashboard(await temporaryQueue());
    expect((await handle(at(`/?token=${guess}`))).status).toBe(403);
    await handle.close();
  });

  test("a program reads and writes with the token as Authorization: Bearer, without the cookie", async () => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(send, 1);
    const { handle, token } = localDashboard(queue);
    for (const authorization of [`Bearer ${token}`, `bearer  ${token}`]) {
      expect((await handle(at("/api/tasks", { authorization }))).status).toBe(200);
      expect((await handle(at("/metrics", { authorization }))).status).toBe(200);
    }
    const request = at(`/api/tasks/${id}/cancel`, { authorization: `Bearer ${token}` });
    expect((await handle(new Request(request, { method: "POST" }))).status).toBe(200);
    expect((await queue.getTask(id))?.status).toBe("cancelled");
    await handle.close();
  });

  test("a wrong or empty Bearer token is refused, also beside the right cookie; another kind of Authorization is ignored", async () => {
    const { handle, token } = localDashboard(await temporaryQueue());
    const other = localDashboard(await temporaryQueue());
    const cookieOf = async (from: typeof other) =>
      (await from.handle(at(`/?token=${from.token}`))).headers.get("set-cookie")?.split(";")[0] ?? "";
    const cookie = await cookieOf({ handle, token });
    const wrong = [
      "Bearer",
      "Bearer ",
      "Bearer x",
      `Bearer ${token}x`,
      `Bearer ${other.token}`,
      "bearer undefined",
    ];
    for (const authorization of wrong)
      for (const headers of [{ authorization }, { authorization, cookie }])
        expect([authorization, (await handle(at("/api/tasks", headers))).status]).toEqual([
          authorization,
          403,
        ]);
    const othersCookie = await cookieOf(other);
    const renamed = `${cookie.split("=")[0]}=${other.token}`;
    for (const headers of [
      { cookie: othersCookie },
      { cookie: renamed },
      { cookie: `${cookie.split("=")[0]}=` },
      { authorization: token },
      { authorization: `Basic ${btoa(`admin:${token}`)}` },
    ] as Record<string, string>[])
      expect([headers, (await handle(at("/api/tasks", headers))).status]).toEqual([headers, 403]);
    expect((await handle(at("/api/tasks", { cookie, authorization: "Basic eDp5" }))).status).toBe(200);
    await other.handle.close();
    await handle.close();
  });

  test("a page of another site cannot write with the token, and under another name the token opens nothing", async () => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(send, 1);
    const { handle, token } = localDashboard(queue);
    const authorization = `Bearer ${token}`;
    for (const headers of [{ "sec-fetch-site": "cross-site" }, { origin: "https://evil.example" }]) {
      const request = at(`/api/tasks/${id}/cancel`, { authorization, ...headers } as Record<string, string>);
      expect((await handle(new Request(request, { method: "POST" }))).status).toBe(403);
    }
    expect((await handle(at("/api/tasks", { authorization, host: "evil.example" }))).status).toBe(421);
    expect((await queue.getTask(id))?.status).toBe("pending");
    await handle.close();
  });

  test("its API refuses with JSON", async () => {
    const { handle, token } = localDashboard(await temporaryQueue());
    for (const [request, status, message] of [
      [at("/api/tasks"), 403, "you may not see this dashboard"],
      [at("/api/tasks?token=guess"), 403, "this is not the token of this dashboard"],
      [
        at(`/api/tasks?token=${token}`, { host: "evil.example" }),
        421,
        "this dashboard is for this machine alone",
      ],
    ] as const) {
      const answer = await handle(request);
      expect([answer.status, await answer.json()]).toEqual([status, { ok: false, message }]);
    }
    expect(await (await handle(at("/tasks?token=guess"))).text()).toBe(
      "403: this is not the token of this dashboard",
    );
    await handle.close();
  });

  test.each(["evil.example:7421", "127.0.0.1.evil.example", "10.0.0.7:7421", ""])(
    "under the name %o it answers nothing, as after a DNS rebinding",
    async (host) => {
      const { handle, token } = localDashboard(await temporaryQueue());
      expect((await handle(at(`/?token=${token}`, { host }))).status).toBe(421);
      await handle.close();
    },
  );
});
