/** What a Manager does with requests that nobody should send. After each, an honest agent is served. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { Agent } from "../../../src/features/agent.ts";
import { addAgent, Manager, type ManagerOptions } from "../../../src/features/manager/index.ts";
import { remoteTask } from "../../../src/index.ts";
import { queueByClock, temporaryQueue } from "../../support/queue.ts";
import { ByHand, onFile, send, startedManager, tokenFor, urlOf, version } from "./setup.ts";

const fn = remoteTask<(...args: unknown[]) => unknown>("remote");

async function setUp(options: ManagerOptions = {}, open = onFile()) {
  const queue = await open();
  const manager = await startedManager(queue, options);
  const token = await tokenFor(queue, ["remote"]);
  const hand = new ByHand(urlOf(manager), token);
  const served = async () => {
    const id = await queue.enqueueTask(fn, 1);
    const [claimed] = (await new ByHand(hand.url, token).claim(["remote"], { slots: 1 })).body.tasks;
    expect(claimed).toMatchObject({ id, args: [1] });
  };
  return { queue, manager, token, hand, served };
}

/** A connection that says this, and what came back until it was closed. */
async function raw(url: string, text: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  let answer = "";
  socket.on("data", (chunk: Buffer) => {
    answer += chunk.toString();
  });
  socket.on("error", () => undefined);
  socket.write(text);
  await once(socket, "close");
  return answer;
}

const headers = (token: string, more = "") =>
  `POST /v1/beat HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n${more}`;

describe("a Manager answers", () => {
  it("400 to what does not parse, and names what is wrong", async () => {
    const { hand, served } = await setUp();
    const { session } = hand;
    const claim = { session, requestId: "r", slots: 1, funcs: ["remote"], wait: 0 };
    const wrong: [path: string, body: object | string, says: RegExp][] = [
      ["/v1/claim", "", /body/],
      ["/v1/claim", "{", /^the body is not the JSON of a request: .*JSON/],
      ["/v1/claim", "[]", /the body.*an object/],
      ["/v1/claim", `${"[".repeat(100_000)}${"]".repeat(100_000)}`, /body|an object/],
      ["/v1/claim", { ...claim, session: "1" }, /session.*UUID.*"1"/],
      ["/v1/claim", { ...claim, requestId: "" }, /requestId/],
      ["/v1/claim", { ...claim, slots: 0 }, /slots.*0/],
      ["/v1/claim", { ...claim, slots: 1.5 }, /slots.*1\.5/],
      ["/v1/claim", { ...claim, funcs: "remote" }, /funcs.*array/],
      ["/v1/claim", { ...claim, wait: "soon" }, /wait.*soon/],
      ["/v1/settle", { session, tasks: [{ id: 1, generation: 1, status: "running" }] }, /tasks\[0\]\.status/],
      ["/v1/settle", { session, tasks: [{ id: "1", generation: 1, status: "released" }] }, /tasks\[0\]\.id/],
      ["/v1/settle", { session, tasks: [{ id: 1, generation: 1, status: "snoozed", delay: -1 }] }, /delay/],
      [
        "/v1/settle",
        `{"session":"${session}","tasks":[{"id":1,"generation":1,"status":"completed","result":12345678901234567890}]}`,
        /12345678901234567890/,
      ],
      [
        "/v1/beat",
        { session, running: Array.from({ length: 10_001 }, () => ({ id: 1, generation: 1 })) },
        /10000/,
      ],
      ["/v1/progress", { session, tasks: [{ id: 1, generation: 1, log: [{ at: 1 }] }] }, /log\[0\]\.message/],
    ];
    for (const [path, body, says] of wrong) {
      const answer = await hand.post(path, body);
      expect([answer.status, answer.body.error], JSON.stringify(body).slice(0, 100)).toEqual([
        400,
        expect.stringMatching(says),
      ]);
    }
    await served();
  });

  it("401 without a valid token, and 403 for a function that is not the agent's, and nothing more", async () => {
    const { queue: byClock, clock } = await queueByClock();
    const { queue, hand, served } = await setUp({}, async () => byClock);
    const expired = (await addAgent(queue, "expired", { funcs: "remote", expires: "1s" })).token;
    clock.advance(1_100);
    const tokens = [
      undefined,
      "",
      "Bearer",
      "Bearer x",
      `Basic ${hand.token}`,
      `Bearer ${hand.token}x`,
      `Bearer ${expired}`,
    ];
    for (const authorization of tokens) {
      const answer = await send(hand.url, "/v1/beat", {
        headers: authorization === undefined ? {} : { authorization },
        body: JSON.stringify({ session: hand.session, running: [] }),
      });
      expect([authorization, answer]).toEqual([
        authorization,
        { status: 401, body: { error: "unauthorized" } },
      ]);
    }
    expect(await hand.claim(["remote", "other"])).toEqual({ status: 403, body: { error: "forbidden" } });
    expect(await hand.claim(["__proto__"])).toEqual({ status: 403, body: { error: "forbidden" } });
    expect((await hand.post("/v1/other", {})).status).toBe(404);
    expect(
      (await send(hand.url, "/v1/constructor", { headers: { authorization: `Bearer ${hand.token}` } }))
        .status,
    ).toBe(404);
    await served();
  });

  it("413 to a body above its limit, whether it says its length or not", async () => {
    const { hand, token, served } = await setUp({ maxBody: 2_000 });
    const body = { session: hand.session, running: [], more: "x".repeat(3_000) };
    expect(await hand.post("/v1/beat", body)).toEqual({
      status: 413,
      body: { error: "the body is larger than 2000 bytes" },
    });
    const chunked = `${headers(token, "transfer-encoding: chunked\r\n\r\n")}bb8\r\n${"x".repeat(3_000)}\r\n`;
    expect(await raw(hand.url, chunked)).toMatch(/^HTTP\/1\.1 413/);
    expect(await raw(hand.url, headers(token, "content-length: 999999999\r\n\r\n{"))).toMatch(
      /^HTTP\/1\.1 413/,
    );
    await served();
  });

  it("nobody when a client goes away in the middle of a body, and reports no error", async () => {
    const { hand, token, manager, served } = await setUp();
    const errors: unknown[] = [];
    manager.on("error", (error) => errors.push(error));
    const port = Number(new URL(hand.url).port);
    for (let i = 0; i < 5; i += 1) {
      const socket = connect(port, "127.0.0.1");
      await once(socket, "connect");
      socket.write(headers(token, 'content-length: 1000\r\n\r\n{"session":'));
      // By then the Manager has looked at the token, and reads the body.
      await new Promise((resolve) => setTimeout(resolve, 50));
      await once(socket.destroy(), "close");
    }
    await served();
    expect(errors).toEqual([]);
  });

  it("429 above its connections, and above its slots", async () => {
    const { hand, manager, token, served } = await setUp({ maxConnections: 3, maxSlots: 5 });
    expect((await hand.claim(["remote"], { slots: 6 })).status).toBe(429);
    const port = Number(new URL(urlOf(manager)).port);
    const sockets: Socket[] = [];
    for (let i = 0; i < 3; i += 1) {
      const socket = connect(port, "127.0.0.1");
      sockets.push(socket);
      socket.write(headers(token, "content-length: 2\r\n\r\n{}"));
      // With its token it has a seat.
      expect(String(await once(socket, "data"))).toMatch(/^HTTP\/1\.1 400/);
    }
    expect((await hand.beat()).status).toBe(429);
    // Who watches whether it runs is answered all the same.
    expect((await send(hand.url, "/healthz", { method: "GET" })).status).toBe(200);
    const closed = sockets.map((socket) => once(socket.destroy(), "close"));
    await Promise.all(closed);
    // The Manager hears of the closed connections in its own time.
    const limit = performance.now() + 10_000;
    while (performance.now() < limit) {
      const { status } = await hand.beat();
      if (status === 200) break;
      expect(status).toBe(429);
    }
    await served();
  });

  it("408 to a request that comes byte by byte, and closes a connection that sends none", async () => {
    const { hand, served } = await setUp();
    const port = Number(new URL(hand.url).port);
    const slow = connect(port, "127.0.0.1");
    onTestFinished(() => void slow.destroy());
    slow.on("error", () => undefined);
    const drip = setInterval(() => slow.write("x"), 500);
    slow.write("POST /v1/beat HTTP/1.1\r\nx: ");
    const [silent, answer] = await Promise.all([raw(hand.url, ""), once(slow, "data")]);
    clearInterval(drip);
    expect(String(answer[0])).toMatch(/^HTTP\/1\.1 408/);
    expect(silent === "" || silent.startsWith("HTTP/1.1 408")).toBe(true);
    await served();
  }, 60_000);

  it("431 to headers that are too large, and 400 to what is no HTTP", async () => {
    const { hand, token, served } = await setUp();
    expect(await raw(hand.url, headers(token, `x: ${"y".repeat(20_000)}\r\n\r\n`))).toMatch(
      /^HTTP\/1\.1 431/,
    );
    expect(await raw(hand.url, "\u0016\u0003\u0001 no HTTP\r\n\r\n")).toMatch(/^HTTP\/1\.1 400/);
    await served();
  });
});

describe("a Manager", () => {
  it("fails a task whose row has JSON that cannot be carried, and gives the agent the others", async () => {
    const { queue, hand } = await setUp();
    const [bad, large, good] = await queue.enqueueTasks([[fn], [fn], [fn, 1]]);
    await queue.transaction(((tx: { run(query: unknown): unknown }) => {
      tx.run(`update dbq_tasks set args = '[1' where id = ${bad}`);
      tx.run(`update dbq_tasks set args = '[12345678901234567890]' where id = ${large}`);
    }) as never);
    const { tasks } = (await hand.claim(["remote"])).body;
    expect(tasks.map(({ id }: { id: number }) => id)).toEqual([good]);
    for (const id of [bad, large])
      expect(await queue.getTask(id as number)).toMatchObject({
        status: "failed",
        error: { code: "DBQ_TASK_CORRUPT" },
      });
  });

  it("fails a task whose result is larger than the queue's limit", async () => {
    const queue = await temporaryQueue({ maxPayload: 1_000 });
    const manager = await startedManager(queue);
    const hand = new ByHand(urlOf(manager), await tokenFor(queue, ["remote"]));
    const id = await queue.enqueueTask(fn);
    const [claimed] = (await hand.claim(["remote"])).body.tasks;
    const result = "x".repeat(1_001);
    expect((await hand.settle({ ...version(claimed), status: "completed", result })).body.settled).toEqual([
      id,
    ]);
    expect(await queue.getTask(id)).toMatchObject({
      status: "failed",
      error: { code: "DBQ_PAYLOAD_TOO_LARGE" },
    });
  });

  it("stores an error of any shape", async () => {
    const { queue, hand } = await setUp();
    const errors = [
      undefined,
      null,
      7,
      "text",
      [],
      {},
      { name: 1, message: {}, stack: [], cause: "x" },
      { message: "m".repeat(50_000) },
    ];
    await queue.enqueueTasks(errors.map(() => [fn.with({ maxRetries: 0 })] as const));
    const { tasks } = (await hand.claim(["remote"])).body;
    const ends = errors.map((error, i) => ({ ...version(tasks[i]), status: "failed", error }));
    expect((await hand.settle(...ends)).body.lost).toEqual([]);
    for (const { id } of tasks) {
      const { status, error } = (await queue.getTask(id)) ?? {};
      expect(status).toBe("failed");
      expect([typeof error?.name, typeof error?.message]).toEqual(["string", "string"]);
      expect(error?.message.length).toBeLessThan(11_000);
    }
  });

  it("refuses options that would show tokens to the network", async () => {
    const queue = await onFile()();
    for (const listen of ["0.0.0.0:7420", "10.0.0.1:0", "[::]:0", "example.com:80"])
      expect(() => new Manager(queue, { listen })).toThrow(/without tls/);
    for (const listen of ["7420", "127.0.0.1", "127.0.0.1:99999", "unix:"])
      expect(() => new Manager(queue, { listen })).toThrow(/listen.*host:port/);
    const agent = { token: "t" };
    for (const managers of ["http://10.0.0.1:7420", "http://localhost.evil.example:1"])
      expect(() => new Agent({ ...agent, managers })).toThrow(/in clear/);
    for (const managers of ["mgr-a:7420", "ftp://127.0.0.1", "https://u:p@host", "https://host/path", []])
      expect(() => new Agent({ ...agent, managers })).toThrow(/managers/);
    expect(() => new Agent({ managers: "https://host", token: "a b" })).toThrow(
      /^new Agent: token: (?!.*a b)/,
    );
  });
});
