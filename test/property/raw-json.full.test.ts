/**
 * Invariant: a row that another program wrote reaches its function as JSON reads it, or fails alone with an error that
 * names the column. It never affects its neighbours or readers.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TaskId, task } from "../../src/index.ts";
import { ended, read } from "../worker/setup.ts";
import { databases } from "./databases.ts";
import { echo, type SharedQueue, sharedQueue, sharedQueueOn } from "./shared-queue.ts";

let post: SharedQueue;
beforeAll(async () => {
  post = await sharedQueue();
});
afterAll(() => post.close());

const levels = 10_000;

/** The depth of nested arrays, without recursion. */
const depthOf = task("depthOf", (value: unknown) => {
  let depth = 0;
  for (let inside = value; Array.isArray(inside); inside = inside[0]) depth += 1;
  return depth;
});

type Columns = Record<string, string | number | Buffer>;

/** Inserts a row between a younger and an older good one, which must complete whatever happens to it. */
async function inserted(columns: Columns): Promise<TaskId> {
  const { raw, queue } = post;
  const insert = (given: Columns): TaskId => {
    const names = Object.keys(given);
    const values = names.map(() => "?").join(", ");
    const { lastInsertRowid } = raw
      .prepare(`insert into dbq_tasks (${names.join(", ")}) values (${values})`)
      .run(Object.values(given));
    return Number(lastInsertRowid);
  };
  const neighbour = { func: echo.taskName, args: '["unharmed"]' };
  // One commit, so that one claim finds all three.
  const [before, id, after] = raw.transaction(() => [
    insert(neighbour),
    insert({ func: echo.taskName, max_retries: 0, ...columns }),
    insert(neighbour),
  ])() as [TaskId, TaskId, TaskId];
  for (const good of [before, after])
    expect(await ended(queue, good)).toMatchObject({
      status: "completed",
      result: ["unharmed"],
      retryCount: 0,
    });
  return id;
}

const parsed = (json: string): unknown => JSON.parse(json);

const given: [what: string, columns: Columns, result: unknown][] = [
  [
    "__proto__ as a key",
    { args: '[{"__proto__":{"admin":true}}]' },
    parsed('[{"__proto__":{"admin":true}}]'),
  ],
  ["__proto__ among kwargs", { kwargs: '{"__proto__":1}' }, [parsed('{"__proto__":1}')]],
  ["constructor and toJSON", { kwargs: '{"constructor":1,"toJSON":"x"}' }, [{ constructor: 1, toJSON: "x" }]],
  ["a key twice: the last counts", { args: '[{"a":1,"a":2}]' }, [{ a: 2 }]],
  ["half of a surrogate pair", { args: '["\\ud800",{"\\udfff":1}]' }, ["\ud800", { "\udfff": 1 }]],
  ["an escaped NUL", { args: '["a\\u0000b"]' }, ["a\0b"]],
  ["line separators as they are", { args: '["\u2028\u2029"]' }, ["\u2028\u2029"]],
  ["1.0 and 10.50", { args: "[1.0, 10.50, 1e2]" }, [1, 10.5, 100]],
  ["-0", { args: "[-0]" }, [-0]],
  ["2^53, and the smallest number", { args: "[9007199254740992, 5e-324]" }, [2 ** 53, Number.MIN_VALUE]],
  ["white space of all kinds", { args: '\n\t [ 1 ,\r\n "x" ] ' }, [1, "x"]],
  ["bytes instead of text", { args: Buffer.from('["é"]') }, ["é"]],
  ["101 levels", { func: depthOf.taskName, args: "[".repeat(102) + "]".repeat(102) }, 101],
  [
    "10,000 levels",
    { func: depthOf.taskName, args: "[".repeat(levels + 1) + "]".repeat(levels + 1) },
    levels,
  ],
  ["meta that is not JSON, which no function sees", { args: "[1]", meta: "{oops" }, [1]],
  ["more than maxPayload", { func: depthOf.taskName, args: JSON.stringify([["x".repeat(400_000)]]) }, 1],
];

describe("a row of another program reaches its function as JSON reads it", () => {
  test.each(given)("%s", async (_, columns, result) => {
    const done = await ended(post.queue, await inserted(columns));
    expect(done.error).toBeNull();
    expect(done.result).toStrictEqual(result);
    // A deep comparison of 10,000 levels overflows the stack.
    const { args, ...rest } = await read(post.other, done.id);
    expect(done).toMatchObject(rest);
    if (columns.func === undefined) expect(done.args).toStrictEqual(args);
  });
});

/** JSON.parse rounds these silently: another language's 64-bit id would become another id. */
const bentNumbers: [what: string, args: string][] = [
  ["2^53 + 1", "[9007199254740993]"],
  ["an id of 64 bits", "[1234567890123456789]"],
  ["the same, negative, beside a string and inside of an object", '[{"a":"123","b":[-9007199254740993]}]'],
  ["1e400", "[1e400]"],
];

/** A server takes bytes for text, and Postgres accepts only valid JSON. */
const onServers = given.filter(
  ([what]) => !["bytes instead of text", "meta that is not JSON, which no function sees"].includes(what),
);

for (const kind of [databases.postgres, databases.mysql])
  describe.skipIf(await kind.missing())(
    `a row of another program reaches its function as JSON reads it, on ${kind.name}`,
    () => {
      let server: Awaited<ReturnType<typeof sharedQueueOn>>;
      beforeAll(async () => {
        server = await sharedQueueOn(kind);
      });
      afterAll(() => server.close());

      test.each(onServers)("%s", async (_, columns, result) => {
        const row = { func: echo.taskName, max_retries: 0, ...columns } as Record<string, string | number>;
        const done = await ended(server.queue, await server.put(row));
        expect(done.error).toBeNull();
        expect(done.result).toStrictEqual(result);
      });

      test.each(bentNumbers)("%s does not become another number", async (_, args) => {
        const failed = await ended(server.queue, await server.put({ func: echo.taskName, args }));
        expect(failed).toMatchObject({ status: "failed", error: { code: "DBQ_TASK_CORRUPT" } });
      });
    },
  );

const failing: [what: string, columns: Columns, column: string][] = [
  ["no JSON", { args: "[oops" }, "args"],
  ["an empty text", { args: "" }, "args"],
  ["an object", { args: '{"0":1}' }, "args"],
  ["null", { args: "null" }, "args"],
  ["a number in place of text", { args: 5 }, "args"],
  ["a trailing comma", { args: "[1,]" }, "args"],
  ["single quotes", { args: "['a']" }, "args"],
  ["NaN", { args: "[NaN]" }, "args"],
  ["a byte order mark", { args: "\ufeff[]" }, "args"],
  ["a NUL behind it", { args: "[1]\0" }, "args"],
  ["a bare NUL inside", { args: '["\0"]' }, "args"],
  ["two values", { args: "[1] [2]" }, "args"],
  ["10,000 levels that do not end", { args: "[".repeat(levels) }, "args"],
  ["bytes that are not text", { args: Buffer.from([0xff, 0x00, 0x5b]) }, "args"],
  ["kwargs that are an array", { kwargs: "[1]" }, "kwargs"],
  ["kwargs that are null", { kwargs: "null" }, "kwargs"],
  ["kwargs that are not JSON", { kwargs: "a=1" }, "kwargs"],
];

describe("a row of another program fails alone, with the name of the column", () => {
  test.each(failing)("%s", async (_, columns, column) => {
    const id = await inserted({ ...columns, max_retries: 3 });
    const failed = await ended(post.queue, id);
    expect(failed).toMatchObject({ status: "failed", retryCount: 0, error: { code: "DBQ_TASK_CORRUPT" } });
    expect(failed.error?.message).toMatch(new RegExp(`^column ${column}: .`));
    // Running it again would not help, and readers see the reason.
    expect(await post.other.listAttempts(id)).toHaveLength(1);
    const [listed] = await post.other.listTasks({ after: id + 1, limit: 1 });
    expect(listed).toEqual(failed);
  });
});

describe("a number that JavaScript does not have", () => {
  test.each(bentNumbers)("%s does not become another number", async (_, args) => {
    const failed = await ended(post.queue, await inserted({ args }));
    expect(failed).toMatchObject({ status: "failed", error: { code: "DBQ_TASK_CORRUPT" } });
  });
});

/**
 * Text in a column for numbers, which SQLite accepts. Its meaning is undefined; its neighbours must not be affected.
 */
const bent: [what: string, columns: Columns, fate: string][] = [
  ["max_retries", { max_retries: "many", args: "oops" }, "failed"],
  ["priority", { priority: "high" }, "completed"],
  ["timeout", { timeout: "soon" }, "completed"],
  ["retry_count", { retry_count: "none" }, "completed"],
  ["created_at", { created_at: "yesterday" }, "completed"],
];

describe("text in a column for numbers", () => {
  test.each(bent)("%s", async (_, columns, fate) => {
    const { status } = await ended(post.queue, await inserted(columns));
    expect(status).toBe(fate);
  });
});
