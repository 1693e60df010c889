import assert from "node:assert/strict";
import type { TaskFilter } from "../../src/store.ts";
import { failedAttempt, insert, minute, oneInEach, outcomes, running, settle, taskIn } from "./arrange.ts";
import type { Context, Group } from "./case.ts";

/** The function names of the tasks that a filter finds, newest first. */
async function found({ store }: Context, filter: TaskFilter, limit = 100, after?: number): Promise<string[]> {
  return (await store.list(filter, limit, after)).map(({ func }) => func);
}

const metas: readonly [func: string, meta: string][] = [
  ["string", '{"k":"1"}'],
  ["number", '{"k":1}'],
  ["fraction", '{"k":1.5}'],
  ["true", '{"k":true}'],
  ["false", '{"k":false}'],
  ["null", '{"k":null}'],
  ["nested", '{"x":{"k":"1"}}'],
  ["inArray", '{"k":["1"]}'],
  ["none", "{}"],
  ["textual", '{"k":"true"}'],
  ["nullText", '{"k":"null"}'],
];

export const readGroup: Group = {
  name: "get, list, count, idle, attempts",
  cases: [
    {
      name: "get returns each existing task once",
      run: async ({ store }) => {
        const [a, b] = (await insert(store, {}, {}, {})) as [number, number, number];
        const got = await store.get([b, 999_999, a, a]);
        assert.deepEqual(
          got.map(({ id }) => id).sort((x, y) => x - y),
          [a, b],
        );
        assert.deepEqual(await store.get([]), []);
        assert.deepEqual(await store.get([999_999]), []);
      },
    },
    {
      name: "list returns the newest first, in pages that neither skip nor repeat a task",
      run: async ({ store }) => {
        const ids = await insert(store, ...Array.from({ length: 7 }, () => ({})));
        const pages: number[][] = [];
        let after: number | undefined;
        for (;;) {
          const page = (await store.list({}, 3, after)).map(({ id }) => id);
          if (page.length === 0) break;
          pages.push(page);
          after = page.at(-1);
          // A task that is inserted between two pages is newer than the pages that follow.
          await insert(store, {});
        }
        assert.deepEqual(pages.flat(), [...ids].reverse());
        assert.deepEqual(
          pages.map((page) => page.length),
          [3, 3, 1],
        );
      },
    },
    {
      name: "each filter finds the tasks that it names, and filters combine with AND",
      run: async (ctx) => {
        await insert(
          ctx.store,
          { func: "a", requestId: "r1" },
          { func: "b", requestId: "r1", queueName: "q" },
          { func: "c", queueName: "q" },
          { func: "d", delay: minute },
        );
        assert.deepEqual(await found(ctx, {}), ["d", "c", "b", "a"]);
        assert.deepEqual(await found(ctx, { func: "c" }), ["c"]);
        assert.deepEqual(await found(ctx, { queueName: "q" }), ["c", "b"]);
        assert.deepEqual(await found(ctx, { requestId: "r1" }), ["b", "a"]);
        assert.deepEqual(await found(ctx, { status: ["scheduled"] }), ["d"]);
        assert.deepEqual(await found(ctx, { status: ["scheduled", "pending"], queueName: "default" }), [
          "d",
          "a",
        ]);
        assert.deepEqual(await found(ctx, { requestId: "r1", queueName: "q" }), ["b"]);
        assert.deepEqual(await found(ctx, { func: "a", queueName: "q" }), []);
        assert.deepEqual(await found(ctx, { queueName: "q' or 1=1 --" }), []);
      },
    },
    {
      name: "filters, counts and idle compare names byte for byte",
      run: async (ctx) => {
        const { store } = ctx;
        await insert(
          store,
          { func: "a", queueName: "q", requestId: "r" },
          { func: "A", queueName: "Q", requestId: "R" },
          { func: "a ", queueName: "q ", requestId: "r " },
          { func: "á", queueName: "q́", requestId: "ŕ" },
        );
        for (const func of ["a", "A", "a ", "á"]) assert.deepEqual(await found(ctx, { func }), [func]);
        assert.deepEqual(await found(ctx, { queueName: "Q" }), ["A"]);
        assert.deepEqual(await found(ctx, { requestId: "r " }), ["a "]);
        assert.equal((await store.count({})).length, 4);
        assert.equal((await store.count({ queueName: "q" }))[0]?.count, 1);
        assert.equal(await store.idle(["ä", "Q  ", " q"]), true);
        assert.equal((await store.purge({ includeRunning: false, func: "A" }, 10, 0)).purged, 1);
        assert.equal((await store.purge({ includeRunning: false, queueName: "q" }, 10, 0)).purged, 1);
        assert.deepEqual(await found(ctx, {}), ["á", "a "]);
      },
    },
    {
      name: "a meta filter compares value and type, at the top level only",
      run: async (ctx) => {
        await insert(ctx.store, ...metas.map(([func, meta]) => ({ func, meta })));
        const expected: [string | number | boolean | null, string[]][] = [
          ["1", ["string"]],
          [1, ["number"]],
          [1.5, ["fraction"]],
          [true, ["true"]],
          [false, ["false"]],
          [null, ["null"]],
          ["true", ["textual"]],
          ["null", ["nullText"]],
          ["none", []],
        ];
        for (const [k, funcs] of expected)
          assert.deepEqual(await found(ctx, { meta: { k } }), funcs, String(k));
      },
    },
    {
      name: "a meta filter finds keys that begin with a minus or that another client has escaped, by values of each type",
      run: async (ctx) => {
        const values = { string: "1", number: 1.5, true: true, false: false, null: null } as const;
        for (const [name, value] of Object.entries(values)) {
          const written = JSON.stringify(value);
          await insert(ctx.store, { func: `minus ${name}`, meta: `{"other":0,"-x":${written},"z":"1"}` });
          await insert(ctx.store, { func: `escaped ${name}`, meta: `{"other":"1","\\u00fc\\/":${written}}` });
        }
        await insert(ctx.store, { func: "nested", meta: '{"a":{"-x":"1"},"-x":["1"]}' });
        await ctx.sql("insert into dbq_tasks (func, meta) values ('other', '{}')");
        for (const [name, value] of Object.entries(values)) {
          assert.deepEqual(await found(ctx, { meta: { "-x": value } }), [`minus ${name}`]);
          assert.deepEqual(await found(ctx, { meta: { "ü/": value } }), [`escaped ${name}`]);
        }
      },
    },
    {
      name: "a meta filter takes any key and any text, and several keys",
      run: async (ctx) => {
        const keys = [
          ...[
            "a.b",
            "$",
            'q"uote',
            "it's",
            "ü",
            " ",
            "[0]",
            "%",
            "-x",
            "-",
            "--",
            "x-",
            "+x",
            "0",
            "01",
            "-1",
            "",
          ],
          ...[
            "a\\b",
            "\\",
            "\\u0041",
            "a/b",
            "*",
            "**",
            "$.*",
            "$[*]",
            "last",
            "a b",
            "a\nb",
            "\u0001",
            "🌊",
            "é",
            "e\u0301",
          ],
          ...["'", "`", ";", "?", ":x", "$1", "null", "__proto__x", "x".repeat(200)],
        ];
        await insert(
          ctx.store,
          ...keys.map((key) => ({ func: `has ${key}`, meta: JSON.stringify({ [key]: `v ${key}`, n: 1 }) })),
        );
        for (const key of keys)
          assert.deepEqual(await found(ctx, { meta: { [key]: `v ${key}`, n: 1 } }), [`has ${key}`]);
        const other = keys.filter((key) => key !== "a.b");
        for (const key of other) assert.deepEqual(await found(ctx, { meta: { [key]: "v a.b" } }), [], key);
        assert.deepEqual(await found(ctx, { meta: { "a.b": "v a.b", n: 2 } }), []);
        assert.equal((await found(ctx, { meta: {} })).length, keys.length);
      },
    },
    {
      name: "a meta filter skips values that it cannot compare, without an error",
      run: async (ctx) => {
        const metas = [
          '{"k":"\\u0000"}',
          '{"k":"\\ud800"}',
          '{"\\u0000":1}',
          '{"k":[1,{"k":2}]}',
          '{"k":1e400}',
          "[1]",
          '"k"',
          "1",
        ];
        await insert(ctx.store, ...metas.map((meta) => ({ func: "odd", meta })));
        await insert(ctx.store, { func: "found", meta: '{"k":"v","n":1}' });
        assert.deepEqual(await found(ctx, { meta: { k: "v" } }), ["found"]);
        assert.deepEqual(await found(ctx, { meta: { n: 1 } }), ["found"]);
        assert.deepEqual(await found(ctx, { meta: { none: true } }), []);
        assert.equal((await found(ctx, {})).length, metas.length + 1);
      },
    },
    {
      name: "count groups by queue, function and status, and takes the same filters as list",
      run: async ({ store }) => {
        await oneInEach(store);
        await insert(store, { func: "a" }, { func: "a" }, { func: "a", queueName: "q", requestId: "r" });
        const all = await store.count({});
        assert.equal(
          all.reduce((sum, { count }) => sum + count, 0),
          9,
        );
        assert.deepEqual(await store.count({ func: "a" }), [
          { queueName: "default", func: "a", status: "pending", count: 2 },
          { queueName: "q", func: "a", status: "pending", count: 1 },
        ]);
        assert.deepEqual(await store.count({ requestId: "r", status: ["pending"] }), [
          { queueName: "q", func: "a", status: "pending", count: 1 },
        ]);
        assert.deepEqual(await store.count({ func: "unknown" }), []);
      },
    },
    {
      name: "idle is true when these queues have no pending and no running task",
      run: async ({ store }) => {
        assert.equal(await store.idle(["default"]), true);
        const task = await running(store);
        assert.equal(await store.idle(["default"]), false);
        assert.equal(await store.idle(["other", "default"]), false);
        assert.equal(await store.idle(["other"]), true);
        await settle(store, outcomes.retry(task));
        assert.equal(await store.idle(["default"]), true, "a scheduled task does not count");
        await insert(store, {});
        assert.equal(await store.idle(["default"]), false);
      },
    },
    {
      name: "attempts returns one task's attempts, oldest first, with worker, times and error",
      run: async ({ store }) => {
        const first = await running(store);
        await settle(store, outcomes.retry(first));
        const second = (await store.retry(first.id))?.record;
        assert.equal(second?.status, "pending");
        const again = await store.settleAndClaim({
          outcomes: [],
          claim: { workerId: "w1", queueNames: ["default"], funcs: ["resize"], limit: 1 },
        });
        const claimed = again.claimed[0];
        assert.ok(claimed);
        await settle(store, outcomes.failed(claimed));
        await taskIn(store, "failed");

        const attempts = await store.attempts(first.id);
        assert.deepEqual(
          attempts.map(({ endedAt, failure, ...rest }) => rest),
          [first, claimed].map(({ generationId, workerId, startedAt }) => ({
            taskId: first.id,
            generationId,
            workerId,
            startedAt,
            outcome: "failed",
            errorName: "Error",
            errorMessage: "no luck",
            errorStack: "Error: no luck\n    at resize",
            errorCause: failedAttempt.errorCause,
          })),
        );
        for (const { startedAt, endedAt } of attempts) assert.ok(endedAt >= (startedAt ?? Number.NaN));
        assert.deepEqual(await store.attempts(999_999), []);
      },
    },
  ],
};
