/** docs/manager-openapi.json describes each request and answer as they are, and the Manager accepts what it describes. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { task } from "../../../src/index.ts";
import { uniqueName } from "../../support/queue.ts";
import { misfits, type Schema } from "./json-schema.ts";
import { type Answer, ByHand, onFile, send, startedManager, tokenFor, urlOf, version } from "./setup.ts";

interface Operation {
  requestBody?: { content: { "application/json": { schema: Schema } } };
  responses: Readonly<Record<string, { content: { "application/json": { schema: Schema } } }>>;
}

const page = JSON.parse(
  readFileSync(new URL("../../../docs/manager-openapi.json", import.meta.url), "utf8"),
) as {
  openapi: string;
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  components: { schemas: Readonly<Record<string, Schema>> };
};
const { schemas } = page.components;

const seen = new Set<string>();

/** Expects that the answer, and the request if it was accepted, are as described. */
function expectDescribed(path: string, body: object | undefined, { status, body: answer }: Answer): void {
  const operation = page.paths[path]?.[body === undefined ? "get" : "post"];
  const described = operation?.responses[status];
  expect(described, `${path} ${status}`).toBeDefined();
  seen.add(`${path} ${status}`);
  expect(misfits(schemas, described?.content["application/json"].schema as Schema, answer)).toEqual([]);
  if (status !== 200 || !operation?.requestBody) return;
  expect(misfits(schemas, operation.requestBody.content["application/json"].schema, body)).toEqual([]);
}

test("every request and answer of a session is as described", async () => {
  const queue = await onFile()();
  const names = [uniqueName(), uniqueName()];
  const [fn] = names.map((name) => task(name, (..._args: unknown[]) => undefined, { maxRetries: 1 }));
  if (!fn) throw new Error("no function");
  const manager = await startedManager(queue, { maxSlots: 10, maxBody: 10_000 });
  const hand = new ByHand(urlOf(manager), await tokenFor(queue, names.slice(0, 1)));
  const { session } = hand;
  const ask = async (path: string, body: object) => {
    const answer = await hand.post(path, body);
    expectDescribed(path, body, answer);
    return answer;
  };
  await queue.enqueueTasks([
    [fn, 1, { a: [null, "é"] }],
    [fn.with({ kwargs: { k: 1 }, meta: { m: 1 }, timeout: "5s", requestId: "r", priority: 9 })],
    [fn],
    [fn],
    [fn],
  ] as never);
  const rate = { limit: 5, per: "1s", burst: 5 };
  await ask("/v1/limits", { session, limits: { [fn.taskName]: { concurrency: 9, rate } } });
  await ask("/v1/limits", { session, limits: { [fn.taskName]: null } });
  const claim = { session, requestId: randomUUID(), slots: 5, funcs: [fn.taskName], wait: "1s" };
  const { tasks } = (await ask("/v1/claim", claim)).body;
  expect(tasks).toHaveLength(5);
  await ask("/v1/beat", { session, running: tasks.map(version) });
  const lines = [{ at: Date.now(), message: "hello" }];
  await ask("/v1/progress", {
    session,
    tasks: [{ ...version(tasks[0]), progress: 0.5, note: "half", log: lines }],
  });
  const error = { name: "Oops", message: "no", stack: "at x", cause: { name: "E", message: "why" } };
  const ends = [
    { status: "completed", result: [1, "x", null] },
    { status: "failed", error, retry: { delay: "1s" } },
    { status: "cancelled", error },
    { status: "throttled", delay: 1_000 },
    { status: "released" },
  ].map((end, i) => ({ ...version(tasks[i]), ...end }));
  await ask("/v1/settle", { session, tasks: ends });
  await ask("/v1/claim", { ...claim, requestId: randomUUID(), wait: 0 });
  const settle = [{ ...version(tasks[0]), status: "completed" }];
  const sharing = { [fn.taskName]: { groups: true, uses: ["api"] } };
  await ask("/v1/claim", { ...claim, requestId: randomUUID(), slots: 0, ahead: 5, settle, sharing });

  await ask("/v1/limits", { session, limits: { [fn.taskName]: { rate: { limit: 5 } } } });
  await ask("/v1/limits", { session, limits: { [names[1] as string]: null } });
  await ask("/v1/claim", { ...claim, session: "me" });
  await ask("/v1/claim", { ...claim, funcs: [names[1]] });
  await ask("/v1/claim", { ...claim, slots: 11 });
  await ask("/v1/settle", { session, tasks: [{ status: "done" }] });
  await ask("/v1/beat", { session, running: 1 });
  await ask("/v1/progress", { session, tasks: [{ ...version(tasks[0]), progress: "half" }] });
  await ask("/v1/progress", {
    session,
    tasks: [{ ...version(tasks[0]), progress: 1, note: "x".repeat(20_000) }],
  });
  expectDescribed("/v1/beat", {}, await new ByHand(hand.url, "no").beat());
  expectDescribed("/healthz", undefined, await send(hand.url, "/healthz", { method: "GET" }));
  expectDescribed(
    "/v1/beat",
    {},
    await send(hand.url, "/v1/beat", { method: "PUT", headers: { authorization: `Bearer ${hand.token}` } }),
  );
  expect([...seen].map((one) => one.split(" ")[1]).sort()).toEqual(
    [
      ...["200", "200", "200", "200", "200", "200", "400", "400", "400", "400", "400"],
      ...["401", "403", "403", "405", "413", "429"],
    ].sort(),
  );
});

test("a wrong answer would be found", () => {
  expect(
    misfits(schemas, schemas.BeatAnswer as Schema, { cancel: [], lost: ["1"], quiet: 1, more: 1 }),
  ).toEqual([
    "$.lost[0]: string is no integer",
    "$.quiet: integer is no boolean",
    "$.more: is not described",
  ]);
  expect(
    misfits(schemas, schemas.SettledTask as Schema, { id: 1, generation: 2, status: "snoozed" }),
  ).toHaveLength(1);
});
