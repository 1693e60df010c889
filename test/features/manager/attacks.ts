/** What a client can do to a Manager, with a token and without one. After each attack, an honest agent is served. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { sql } from "drizzle-orm/sql/sql";
import { describe, expect, it, onTestFinished } from "vitest";
import { Agent } from "../../../src/features/agent.ts";
import { addAgent, type ManagerOptions, revokeAgent } from "../../../src/features/manager/index.ts";
import { type Queue, remoteTask, task } from "../../../src/index.ts";
import { uniqueName } from "../../support/queue.ts";
import { ByHand, type Open, startedManager, tokenFor, urlOf, version } from "./setup.ts";

/** Levels that made a parser, or a walk over what was parsed, fail or take long. */
const deep = 150_000;
const nested = (levels: number, open = "[", close = "]") => open.repeat(levels) + close.repeat(levels);
const deepCause = `${'{"message":"m","cause":'.repeat(deep)}null${"}".repeat(deep)}`;

const headers = (token: string, more = "") =>
  `POST /v1/beat HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n${more}`;

/** `place`: a new database for one test. */
export function attackCases(name: string, place: () => Open | Promise<Open>): void {
  async function setUp(options: ManagerOptions = {}) {
    const open = await place();
    const queue = await open();
    const func = uniqueName();
    const fn = remoteTask<(...args: unknown[]) => unknown>(func);
    const manager = await startedManager(queue, options);
    const url = urlOf(manager);
    const token = await tokenFor(queue, [func]);
    const hand = new ByHand(url, token);
    /** One more task of the function, claimed by `hand`. */
    const claimed = async () => {
      const id = await queue.enqueueTask(fn.with({ maxRetries: 0 }));
      const { tasks } = (await hand.claim([func])).body;
      return { id, task: tasks.find((one: { id: number }) => one.id === id) };
    };
    /** Another agent is served: it beats, and gets a task. */
    const served = async () => {
      const honest = new ByHand(url, await tokenFor(queue, [func]));
      expect((await honest.beat()).status).toBe(200);
      const id = await queue.enqueueTask(fn, 1);
      const { tasks } = (await honest.claim([func], { slots: 100 })).body;
      expect(tasks.map((one: { id: number }) => one.id)).toContain(id);
    };
    return { queue, func, fn, manager, url, token, hand, claimed, served };
  }

  const opened = async (url: string): Promise<Socket> => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => undefined).resume();
    await once(socket, "connect");
    return socket;
  };
  /** A connection that has said this, and been answered. */
  const answered = async (url: string, text: string): Promise<{ socket: Socket; answer: string }> => {
    const socket = await opened(url);
    socket.write(text);
    return { socket, answer: String((await once(socket, "data"))[0]) };
  };

  describe(name, () => {
    describe("a body", () => {
      type Sent = { session: string; func: string; id: number };
      const claim = ({ session, func }: Sent, more: string) =>
        `{"session":"${session}","requestId":"r","slots":1,"funcs":["${func}"],"wait":0${more}}`;
      const settle = ({ session, id }: Sent, more: string) =>
        `{"session":"${session}","tasks":[{"id":${id},"generation":2,${more}}]}`;
      const attacks: [what: string, path: string, body: (sent: Sent) => string | Buffer, says: RegExp][] = [
        ["that is deeper than any value", "/v1/claim", () => nested(deep), /an object/],
        ["that has no end of levels", "/v1/claim", () => "[".repeat(2_000_000), /JSON/],
        [
          "with deep tasks",
          "/v1/settle",
          ({ session }) => `{"session":"${session}","tasks":${nested(deep)}}`,
          /tasks\[0\]/,
        ],
        ["with deep functions", "/v1/claim", (s) => claim(s, `,"funcs":${nested(deep)}`), /funcs\[0\]/],
        ["with a deep request id", "/v1/claim", (s) => claim(s, `,"requestId":${nested(deep)}`), /requestId/],
        ["with a second session", "/v1/claim", (s) => claim(s, ',"session":"other"'), /session/],
        [
          "with __proto__ for a session",
          "/v1/beat",
          ({ session }) => `{"__proto__":{"session":"${session}"},"running":[]}`,
          /session/,
        ],
        [
          "with an id that JavaScript rounds",
          "/v1/settle",
          (s) => settle({ ...s, id: 0 }, '"status":"released"').replace('"id":0', '"id":9007199254740993'),
          /9007199254740993/,
        ],
        [
          "with a running id that JavaScript rounds",
          "/v1/beat",
          ({ session }) => `{"session":"${session}","running":[{"id":9007199254740993,"generation":2}]}`,
          /9007199254740993/,
        ],
        [
          "with an id beyond every integer",
          "/v1/settle",
          (s) => settle(s, '"status":"released","id":1e300'),
          /id/,
        ],
        [
          "with a generation below 1",
          "/v1/settle",
          (s) => settle(s, '"status":"released","generation":-1'),
          /generation/,
        ],
        [
          "with a progress beyond every number",
          "/v1/progress",
          (s) => settle(s, '"progress":1e309'),
          /1e309/,
        ],
        [
          "with a delay beyond every number",
          "/v1/settle",
          (s) => settle(s, '"status":"snoozed","delay":1e308'),
          /delay/,
        ],
        [
          "with a log line without time",
          "/v1/progress",
          (s) => settle(s, '"log":[{"at":-1,"message":"x"}]'),
          /at/,
        ],
        [
          "with a log line after the year 9999",
          "/v1/progress",
          (s) => settle(s, '"log":[{"at":8.6e15,"message":"x"}]'),
          /at/,
        ],
        [
          "with functions of limits that are no names",
          "/v1/limits",
          ({ session }) => `{"session":"${session}","limits":{"":null}}`,
          /limits/,
        ],
        [
          "that is not UTF-8",
          "/v1/settle",
          ({ session }) => Buffer.from(`{"session":"${session}","tasks":[],"x":"\xe9"}`, "latin1"),
          /UTF-8/,
        ],
        [
          "that is compressed",
          "/v1/beat",
          () => Buffer.from("1f8b0800000000000003ab56ca4f5592aa05003b5c6b1e0a000000", "hex"),
          /UTF-8/,
        ],
      ];
      it("that no agent sends is answered 400, which names what is wrong", async () => {
        const { hand, func, claimed, served } = await setUp();
        const { id, task } = await claimed();
        for (const [what, path, body, says] of attacks) {
          const answer = await hand.post(path, body({ session: hand.session, func, id }));
          expect([what, answer.status, answer.body.error]).toEqual([what, 400, expect.stringMatching(says)]);
        }
        expect((await hand.settle({ ...version(task), status: "released" })).body.settled).toEqual([id]);
        await served();
      });

      it("that is large does not delay the beats of another agent", async () => {
        const { hand, queue, func, url, served } = await setUp();
        const honest = new ByHand(url, await tokenFor(queue, [func]));
        expect((await honest.beat()).status).toBe(200);
        let open = 0;
        const attack = Array.from({ length: 40 }, async () => {
          open += 1;
          const { status } = await hand.post("/v1/claim", `[${"0,".repeat(1_000_000)}0]`);
          open -= 1;
          return status;
        });
        for (let i = 0; i < 3; i += 1) {
          expect((await honest.beat()).status).toBe(200);
          expect(open).toBeGreaterThan(0);
        }
        expect(new Set(await Promise.all(attack))).toEqual(new Set([400]));
        await served();
      }, 60_000);

      it("in thousands of chunks of one byte is refused before it ends", async () => {
        const { url, token, served } = await setUp();
        const socket = await opened(url);
        let answer = "";
        socket.on("data", (data) => {
          answer += String(data);
        });
        socket.write(headers(token, "transfer-encoding: chunked\r\n\r\n"));
        // Those that come before the Manager reads are one for it.
        await until(async () => {
          socket.write("1\r\n \r\n".repeat(2_000));
          return answer !== "";
        });
        expect(answer).toMatch(/^HTTP\/1.1 400[\s\S]* bytes so far comes in \d+ chunks/);
        await served();
      });

      it("that comes slowly is one of a bounded number", async () => {
        const { url, token, served } = await setUp({ maxSessions: 1 });
        for (let i = 0; i < 16; i += 1)
          (await opened(url)).write(
            headers(token, 'expect: 100-continue\r\ncontent-length: 100\r\n\r\n{"session"'),
          );
        let refused: string;
        // The last of those requests may still be on its way.
        do refused = (await answered(url, headers(token, "content-length: 100\r\n\r\n{"))).answer;
        while (!refused.startsWith("HTTP/1.1 429"));
        expect(refused).toContain("more than 16 requests at once");
        await served();
      });
    });

    describe("a settle", () => {
      const ends: [what: string, json: string, error: object][] = [
        ["a deep cause", `"status":"failed","error":${deepCause}`, { message: "m" }],
        ["a deep message", `"status":"failed","error":{"message":${nested(deep)}}`, { message: "" }],
        ["a deep error", `"status":"failed","error":${nested(deep)}`, { name: "Error" }],
        ["a deep error of a cancel", `"status":"cancelled","error":${deepCause}`, { message: "m" }],
        [
          "a deep result",
          `"status":"completed","result":${nested(deep)}`,
          { code: "DBQ_NOT_SERIALIZABLE", message: expect.stringMatching(/more than 100 levels/) },
        ],
        [
          "a deep result among others",
          `"status":"completed","result":{"a":[1,${nested(deep, '{"b":', "}").replace("}", "1}")}]}`,
          { code: "DBQ_NOT_SERIALIZABLE" },
        ],
        [
          "a field that is deep and unknown",
          `"status":"failed","error":{"message":"m"},"x":${nested(deep)}`,
          { message: "m" },
        ],
        [
          "__proto__ in an error",
          '"status":"failed","error":{"__proto__":{"message":"no"},"name":"E"}',
          { name: "E", message: "" },
        ],
        [
          "NUL and half a character",
          '"status":"failed","error":{"name":"a\\u0000\\ud800","message":"\\u0000\\udfff","code":"\\u0000"}',
          { name: expect.stringMatching(/^a/) },
        ],
        [
          "a million characters in each text",
          `"status":"failed","error":{"name":"${"n".repeat(1e6)}","message":"${"m".repeat(1e6)}","code":"${"c".repeat(1e6)}"}`,
          {},
        ],
      ];
      it("with an error or a result that cannot be kept ends the task", async () => {
        const { hand, queue, claimed, served } = await setUp();
        for (const [what, json, error] of ends) {
          const { id, task } = await claimed();
          const body = `{"session":"${hand.session}","tasks":[{"id":${id},"generation":${task.generation},${json}}]}`;
          expect([what, await hand.post("/v1/settle", body)]).toEqual([
            what,
            { status: 200, body: { settled: [id], lost: [] } },
          ]);
          const row = await queue.getTask(id);
          expect([what, row]).toEqual([
            what,
            expect.objectContaining({
              status: json.includes('"cancelled"') ? "cancelled" : "failed",
              error: expect.objectContaining(error),
            }),
          ]);
          expect(JSON.stringify(row?.error).length).toBeLessThan(50_000);
        }
        await served();
      }, 60_000);

      it("with values at the edge of what is allowed keeps them, or says what is wrong", async () => {
        const { hand, queue, claimed } = await setUp();
        const { id, task } = await claimed();
        for (const progress of [1e308, -1e308, 5e-324, 1e-310, -0])
          expect([progress, (await hand.progress({ ...version(task), progress })).status]).toEqual([
            progress,
            200,
          ]);
        const at = 253_402_214_400_000;
        expect((await hand.progress({ ...version(task), log: [{ at, message: "\0\ud800" }] })).status).toBe(
          200,
        );
        expect(await queue.listLogs(id)).toMatchObject([{ at: new Date(at) }]);
        const result = JSON.parse(`{"__proto__":{"a":1e308},"x":${nested(98)}}`) as unknown;
        const end = { ...version(task), status: "completed", result };
        expect((await hand.settle(end, end)).body.lost).toEqual([]);
        expect(JSON.stringify((await queue.getTask(id))?.result)).toBe(JSON.stringify(result));
        const other = await claimed();
        await hand.settle({ ...version(other.task), status: "snoozed", delay: 4e15 });
        expect(await queue.getTask(other.id)).toMatchObject({ status: "scheduled" });
      });

      it("of any ids reads no payload of other agents' tasks, and changes nothing", async () => {
        const { hand, queue, url, func, fn, served } = await setUp();
        const other = new ByHand(url, await tokenFor(queue, [func]));
        await queue.enqueueTasks(Array.from({ length: 20 }, () => [fn, "x".repeat(1_000)] as const));
        const { tasks } = (await other.claim([func], { slots: 10 })).body;
        const ids = [...tasks, ...tasks.map(({ id }: { id: number }) => ({ id: id + 10, generation: 1 }))];
        const named = ids.map(version).concat({ id: -5, generation: 1 }, { id: 2 ** 53 - 1, generation: 1 });
        for (const status of ["completed", "failed", "cancelled", "released"]) {
          const { body } = await hand.settle(...named.map((one) => ({ ...one, status })));
          expect(body).toEqual({ settled: [], lost: named.map(({ id }) => id) });
        }
        const notes = named.map((one) => ({
          ...one,
          progress: 1,
          log: [{ at: 1, message: "x" }],
          maxRetries: 9,
        }));
        expect((await hand.progress(...notes)).body.lost).toHaveLength(named.length);
        await hand.beat(...named);
        for (const { id } of tasks) {
          expect(await queue.getTask(id)).toMatchObject({ status: "running", progress: null, maxRetries: 3 });
          expect(await queue.listLogs(id)).toEqual([]);
        }
        await served();
      });
    });

    it("log lines and notes are cut, and an attempt has a bounded number of lines", async () => {
      const { hand, queue, claimed, served } = await setUp();
      const { id, task } = await claimed();
      const long = `${"x".repeat(1_999)}${"🌊".repeat(100_000)}`;
      expect(
        (await hand.progress({ ...version(task), progress: 1, note: long, log: [{ at: 1, message: long }] }))
          .status,
      ).toBe(200);
      expect(await queue.getTask(id)).toMatchObject({ progressNote: "x".repeat(1_000) });
      expect(await queue.listLogs(id)).toMatchObject([{ message: "x".repeat(1_999) }]);
      const log = Array.from({ length: 900 }, (_, n) => ({ at: n, message: `${n}` }));
      for (let i = 0; i < 3; i += 1)
        expect((await hand.progress({ ...version(task), log })).status).toBe(200);
      expect(await queue.listLogs(id)).toHaveLength(1_001);
      await served();
    });

    it("answers that nobody reads are four of an agent, and its other claims wait", async () => {
      const { queue, url, token, hand, func, fn, served } = await setUp();
      await queue.enqueueTasks(Array.from({ length: 16 }, () => [fn, "x".repeat(500_000)] as const));
      const asked = { session: hand.session, requestId: "r", slots: 16, funcs: [func], wait: 0 };
      const body = JSON.stringify(asked);
      const claim = (json: string) =>
        headers(token, `content-length: ${json.length}\r\n\r\n${json}`).replace("beat", "claim");
      expect((await hand.post("/v1/claim", body)).body.tasks).toHaveLength(16);
      const sockets: Socket[] = [];
      const withTasks: Socket[] = [];
      for (let i = 0; i < 12; i += 1) {
        const socket = connect(Number(new URL(url).port), "127.0.0.1");
        onTestFinished(() => void socket.destroy());
        sockets.push(socket.on("error", () => undefined));
        // It takes the beginning of the answer, and no more.
        socket.once("readable", () => {
          if (/"tasks":\[\{/.test(String(socket.read(1_000)))) withTasks.push(socket);
        });
        socket.write(claim(body));
        // A session's next claim ends the one before, if that has not found tasks yet.
        if (i < 4) await until(async () => withTasks.length > i);
      }
      await served();
      expect(withTasks).toHaveLength(4);
      for (const socket of [...withTasks]) socket.destroy();
      await until(async () => withTasks.length === 5);
      for (const socket of sockets) socket.destroy();
      // The answers to the second requests of these connections wait for the first ones.
      for (let i = 0; i < 4; i += 1) {
        const socket = await opened(url);
        socket.write(claim(JSON.stringify({ ...asked, session: randomUUID(), wait: "20s" })) + claim(body));
        await new Promise((resolve) => setTimeout(resolve, 100));
        socket.destroy();
      }
      expect((await hand.post("/v1/claim", body)).body.tasks).toHaveLength(16);
    });

    it("a task whose row is deeper than an agent can walk fails, and the agent gets the others", async () => {
      const { hand, queue, func, fn } = await setUp();
      const ids = await queue.enqueueTasks([[fn], [fn], [fn, 1]]);
      const update = (column: string, json: string, id: number) =>
        write(queue, sql`update dbq_tasks set ${sql.raw(column)} = ${json} where id = ${id}`);
      await update("args", nested(10_000), ids[0] as number);
      await update("meta", `{"a":${nested(200)}}`, ids[1] as number);
      const { tasks } = (await hand.claim([func])).body;
      expect(tasks.map(({ id }: { id: number }) => id)).toEqual([ids[2]]);
      for (const id of ids.slice(0, 2))
        expect(await queue.getTask(id)).toMatchObject({
          status: "failed",
          error: { code: "DBQ_TASK_CORRUPT", message: expect.stringMatching(/more than 100 levels deep/) },
        });
    });

    describe("a token that was replaced", () => {
      const replaced = async (more: ManagerOptions = {}) => {
        const { queue, url, func, fn, served } = await setUp(more);
        const rights = { funcs: [func, "second"] };
        const old = (await addAgent(queue, "agent", { ...rights, queues: ["default", "secret"] })).token;
        const replace = async () => {
          await revokeAgent(queue, "agent");
          return (await addAgent(queue, "agent", { ...rights, funcs: [func] })).token;
        };
        return { queue, func, fn, served, before: new ByHand(url, old), replace };
      };

      it("leaves its session with the queues and functions of the new one", async () => {
        const { queue, func, fn, served, before, replace } = await replaced();
        expect((await before.claim([func])).status).toBe(200);
        const after = new ByHand(before.url, await replace(), before.session);
        const [, open] = await queue.enqueueTasks([[fn.with({ queueName: "secret" })], [fn]]);
        const { tasks } = (await after.claim([func])).body;
        expect(tasks.map(({ id }: { id: number }) => id)).toEqual([open]);
        expect((await after.claim([func, "second"])).status).toBe(403);
        expect((await before.claim([func])).status).toBe(401);
        expect((await after.settle({ ...version(tasks[0]), status: "completed" })).body.settled).toEqual([
          open,
        ]);
        await served();
      });

      it("gives a claim that waits nothing more", async () => {
        const { queue, func, fn, before, replace } = await replaced();
        const waiting = before.claim([func], { wait: "20s" });
        const after = new ByHand(before.url, await replace(), before.session);
        await until(async () => (await after.beat()).status === 200);
        const id = await queue.enqueueTask(fn.with({ queueName: "secret" }));
        expect((await waiting).body.tasks ?? []).toEqual([]);
        expect(await queue.getTask(id)).toMatchObject({ status: "pending" });
      });

      it("gets nothing for a request whose body ends after that", async () => {
        const { queue, func, fn, before, replace } = await replaced();
        await queue.enqueueTask(fn);
        const body = JSON.stringify({
          session: before.session,
          requestId: "r",
          slots: 1,
          funcs: [func],
          wait: 0,
        });
        const authorization = `Bearer ${before.token}`;
        const request = httpRequest(new URL("/v1/claim", before.url), {
          method: "POST",
          headers: { authorization, "content-length": body.length },
        });
        request.write(body.slice(0, 10));
        // By then the Manager has looked at the token: the request came before this one.
        await before.beat();
        await replace();
        await until(async () => (await before.beat()).status === 401);
        request.end(body.slice(10));
        expect(((await once(request, "response")) as [{ statusCode: number }])[0].statusCode).toBe(401);
      });
    });

    describe("connections", () => {
      it("without a token take no seat, and the oldest of too many are closed", async () => {
        const { url, hand, served } = await setUp({ maxConnections: 3 });
        const sockets = [];
        for (let i = 0; i < 120; i += 1) sockets.push(await opened(url));
        const [oldest] = sockets as [Socket];
        if (!oldest.closed) await once(oldest, "close");
        expect((await hand.beat()).status).toBe(200);
        await served();
      });

      it("of a wrong token are closed with the answer", async () => {
        const { url, served } = await setUp({ maxConnections: 1 });
        const { socket, answer } = await answered(url, headers("wrong", "content-length: 0\r\n\r\n"));
        expect(answer).toMatch(/^HTTP\/1\.1 401/);
        if (!socket.closed) await once(socket, "close");
        await served();
      });

      it("of one agent give way to another agent's", async () => {
        const { url, token, hand, served } = await setUp({ maxConnections: 3 });
        const seated = headers(token, "content-length: 2\r\n\r\n{}");
        const first = await answered(url, seated);
        for (let i = 0; i < 2; i += 1) await answered(url, seated);
        expect(await hand.beat()).toEqual({ status: 429, body: { error: "too many connections" } });
        await served();
        expect(first.socket.closed || (await once(first.socket, "close"))).toBeTruthy();
      });
    });

    describe("sessions of one token", () => {
      it("are bounded, and the answer says so", async () => {
        const { queue, url, token, func, hand, served } = await setUp({ maxSessions: 3 });
        const answers = [];
        for (let i = 0; i < 5; i += 1) answers.push(await new ByHand(url, token, randomUUID()).claim([func]));
        expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
        expect(answers[4]?.body.error).toMatch(
          /^the agent "agent-\d+" has 3 sessions already.*--max-sessions/,
        );
        expect((await hand.beat()).status).toBe(429);
        expect(await queue.listWorkers()).toHaveLength(3);
        await served();
      });

      it("are too many for another agent's process, which says so while it asks again", async () => {
        const { manager, token, func, hand } = await setUp({ maxSessions: 1 });
        expect((await hand.beat()).status).toBe(200);
        const agent = new Agent({ managers: [urlOf(manager)], token, tasks: [task(func, () => 1)] });
        const start = agent.start();
        start.catch(() => undefined);
        const [error] = (await once(agent, "error")) as [Error];
        expect(error.message).toMatch(/has 1 sessions already/);
        await agent.stop({ grace: 0 });
      });
    });
  });
}

/** Runs a statement of its own. */
async function write(queue: Queue, statement: ReturnType<typeof sql>): Promise<void> {
  await queue.transaction(((tx: { run?(query: unknown): unknown; execute?(query: unknown): unknown }) =>
    tx.run ? void tx.run(statement) : tx.execute?.(statement)) as never);
}

/** Asks again until it is so: what it waits for has no event. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 20));
}
