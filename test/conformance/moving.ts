import assert from "node:assert/strict";
import type { MovedRow, MovedTable, MoveMark } from "../../src/moving.ts";
import type { Store } from "../../src/store.ts";
import { insert, insertOne, newTask, newWorker, oneInEach, recordOf, taskIn } from "./arrange.ts";
import type { Case, Context, Group } from "./case.ts";

const refusal = "this queue moves to a better place: nothing is written here any more";
const mark = (changes: Partial<MoveMark> = {}): MoveMark => ({
  moveId: "m1",
  run: "r1",
  state: "filling",
  other: "a better place é",
  refusal,
  ...changes,
});

/** Sets a mark, whatever there was. */
async function setMark({ moving: own }: Store, next: MoveMark | undefined): Promise<void> {
  assert.ok(await own.setMark(next, await own.mark()));
}

/** Of all rows, in the order of their ids. */
async function rowsOf({ moving }: Store, table: MovedTable): Promise<MovedRow[]> {
  const stamps = await moving.stamps(table, Number.MIN_SAFE_INTEGER, 1_000);
  return await moving.read(
    table,
    stamps.map(({ id }) => id),
  );
}

const refused = (error: unknown) => error instanceof Error && error.message.includes(refusal);

/** A case after which the database takes tasks again: others have their rows in it. */
function moving(name: string, run: (ctx: Context) => Promise<void>, needs: Case["needs"] = []): Case {
  return {
    name,
    needs,
    run: async (ctx) => {
      try {
        await run(ctx);
      } finally {
        await ctx.bare.moving.unseal();
        await setMark(ctx.bare, undefined);
      }
    },
  };
}

export const movingGroup: Group = {
  name: "moving",
  cases: [
    moving("rows are written as they were read, each column of them", async ({ bare, sql }) => {
      const odd = '["\\ud800\\u0000", 9007199254740993, 1e400, {"b" :1, "a":-0}, "é 🎉"]';
      const made = await oneInEach(bare, {
        ...{ args: odd, kwargs: '{"a":"\\u0000"}', meta: '{"b": [1 ,2]}', priority: -3, timeout: 5_000 },
        ...{ requestId: "r é ", uniqueKey: null, queueName: "default" },
      });
      const ids = Object.values(made).map(({ id }) => id);
      await sql(
        `update dbq_tasks set progress = 90.28571428571429, progress_note = 'é 🎉 ' where id = ${ids[0]}`,
      );
      const tasks = await bare.get(ids);
      const attempts = await Promise.all(ids.map((id) => bare.attempts(id)));
      const read = { tasks: await rowsOf(bare, "dbq_tasks"), attempts: await rowsOf(bare, "dbq_attempts") };
      assert.equal(read.tasks.length, 6);
      assert.equal(read.attempts.length, 2);
      assert.ok(read.tasks.some((row) => row.includes(90.28571428571429)));

      await setMark(bare, mark());
      const gone = (rows: MovedRow[]) => rows.map(([id]) => id);
      assert.ok(await bare.moving.write("r1", "dbq_tasks", [], gone(read.tasks)));
      assert.ok(await bare.moving.write("r1", "dbq_attempts", read.attempts, gone(read.attempts)));
      assert.deepEqual(await bare.get(ids), []);
      assert.ok(await bare.moving.write("r1", "dbq_tasks", read.tasks, []));
      const byId = (a: { id: number }, b: { id: number }) => a.id - b.id;
      assert.deepEqual((await bare.get(ids)).sort(byId), [...tasks].sort(byId));
      assert.deepEqual(await Promise.all(ids.map((id) => bare.attempts(id))), attempts);
      assert.deepEqual(await rowsOf(bare, "dbq_attempts"), read.attempts);
    }),
    moving("a write that is refused writes nothing", async ({ bare }) => {
      const [first, second] = await insert(bare, {}, {});
      const [row, other] = await rowsOf(bare, "dbq_tasks");
      assert.ok(first && second && row && other);
      await setMark(bare, mark());
      const again: MovedRow = [...other];
      await assert.rejects(bare.moving.write("r1", "dbq_tasks", [row, again], [first]));
      assert.deepEqual((await rowsOf(bare, "dbq_tasks")).length, 2);
    }),
    moving("a stamp is another one after each change, and tells which tasks hold keys", async ({ bare }) => {
      const failed = await taskIn(bare, "failed", { uniqueKey: "k1" });
      const held = await insertOne(bare, { uniqueKey: "k2", args: '["é"]' });
      const stamps = () => bare.moving.stamps("dbq_tasks", 0, 10);
      const before = await stamps();
      assert.deepEqual(
        before.map(({ id, keyed }) => ({ id, keyed })),
        [
          { id: failed.id, keyed: false },
          { id: held, keyed: true },
        ],
      );
      assert.equal(before[1]?.bytes, Buffer.byteLength('["é"]') + 2 * "{}".length);
      assert.deepEqual(await stamps(), before);
      await bare.cancel(held, "{}");
      const [same, other] = await stamps();
      assert.deepEqual(same, before[0]);
      assert.notEqual(other?.version, before[1]?.version);
      assert.equal(other?.keyed, false);
      assert.deepEqual(await bare.moving.stamps("dbq_tasks", failed.id, 10), [other]);
      assert.deepEqual(await bare.moving.stamps("dbq_tasks", 0, 1), [same]);
      assert.equal((await bare.moving.stamps("dbq_attempts", 0, 10)).length, 1);
      assert.deepEqual([await bare.moving.size("dbq_tasks"), await bare.moving.size("dbq_attempts")], [2, 1]);
    }),
    moving("a sealed database refuses tasks, changes and workers, whoever writes", async (ctx) => {
      const { bare, sql } = ctx;
      const { pending } = await oneInEach(bare);
      const before = await rowsOf(bare, "dbq_tasks");
      await setMark(bare, mark({ state: "closing" }));
      await bare.moving.seal();
      await assert.rejects(bare.insert([newTask()], "report"), refused);
      await assert.rejects(bare.insert([newTask({ uniqueKey: "k" }), newTask()], "report"), refused);
      await assert.rejects(bare.cancel(pending.id, "{}"), refused);
      await assert.rejects(bare.register(newWorker("w9")), refused);
      await assert.rejects(sql("insert into dbq_tasks (func) values ('raw')"));
      await assert.rejects(sql(`update dbq_tasks set priority = 1 where id = ${pending.id}`));
      assert.deepEqual(await rowsOf(bare, "dbq_tasks"), before);
      // Workers that look for work and find none do not fail.
      assert.equal((await bare.promote(10)).promoted, 0);
      await bare.moving.seal();
      await bare.moving.unseal();
      await bare.moving.unseal();
      assert.ok((await bare.cancel(pending.id, "{}"))?.changed);
      assert.ok((await insertOne(bare)) > pending.id);
      await bare.register(newWorker("w9"));
    }),
    moving(
      "the seal waits for who writes, and holds off who comes after",
      async (ctx) => {
        const { bare, place } = ctx;
        const another = await ctx.another();
        const open = await place.begin();
        await bare.within(open.handle).insert([newTask({ func: "late" })], "report");
        await bare.moving.size("dbq_tasks");
        let sealed = false;
        // The mark too, which on SQLite waits like any other write.
        const sealing = (async () => {
          await setMark(bare, mark({ state: "closing" }));
          await bare.moving.seal();
          sealed = true;
        })();
        for (let i = 0; i < 20; i += 1) await another.moving.size("dbq_tasks");
        assert.equal(sealed, false);
        await open.commit();
        await sealing;
        assert.equal(await bare.moving.size("dbq_tasks"), 1);
        await assert.rejects(another.insert([newTask()], "report"), refused);
      },
      ["several connections"],
    ),
    moving("only the move that fills a sealed database writes to it", async ({ bare }) => {
      await insert(bare, {}, { uniqueKey: "k" });
      const rows = await rowsOf(bare, "dbq_tasks");
      const ids = rows.map(([id]) => id);
      await setMark(bare, mark());
      await bare.moving.seal();
      const write = (run: string) => bare.moving.write(run, "dbq_tasks", rows, ids);
      assert.deepEqual([await write("r2"), await bare.moving.removeKeyed("r2")], [false, false]);
      assert.deepEqual(await rowsOf(bare, "dbq_tasks"), rows);
      assert.deepEqual([await write("r1"), await bare.moving.removeKeyed("r1")], [true, true]);
      assert.deepEqual(await rowsOf(bare, "dbq_tasks"), rows.slice(0, 1));
      await assert.rejects(bare.insert([newTask()], "report"), refused);
      assert.ok(await bare.moving.advance("r1", "filling", "filled"));
      assert.equal(await write("r1"), false);
    }),
    moving("a mark is kept, and goes from one state to the next for its own move", async (ctx) => {
      const { moving: own } = ctx.bare;
      assert.equal(await own.mark(), undefined);
      const copying = mark({ state: "copying" });
      assert.equal(await own.setMark(copying, undefined), true);
      assert.deepEqual(await own.mark(), copying);
      assert.equal(await own.advance("r2", "copying", "closing"), false);
      assert.equal(await own.advance("r1", "closing", "moved"), false);
      assert.equal(await own.advance("r1", "copying", "closing"), true);
      // Done twice, it was done.
      assert.equal(await own.advance("r1", "copying", "closing"), true);
      assert.deepEqual(await own.mark(), mark({ state: "closing" }));
      const other = mark({ moveId: "m2", run: "r2", state: "preparing" });
      for (const seen of [undefined, copying, mark({ run: "r3", state: "closing" })])
        assert.equal(await own.setMark(other, seen), false);
      assert.equal(await own.setMark(undefined, copying), false);
      assert.deepEqual(await own.mark(), mark({ state: "closing" }));
      for (let i = 0; i < 2; i += 1) assert.equal(await own.setMark(other, mark({ state: "closing" })), true);
      assert.deepEqual(await own.mark(), other);
      for (let i = 0; i < 2; i += 1) assert.equal(await own.setMark(undefined, other), true);
      assert.equal(await own.mark(), undefined);
    }),
    moving("ids go on above the last one, which is known when its task is gone", async ({ bare }) => {
      const last = await insertOne(bare);
      await bare.purge({ includeRunning: true }, 10, 0);
      assert.equal(await bare.moving.lastId("dbq_tasks"), last);
      await bare.moving.setLastId("dbq_tasks", last + 1_000);
      assert.equal(await bare.moving.lastId("dbq_tasks"), last + 1_000);
      await bare.moving.setLastId("dbq_tasks", last + 10);
      assert.ok((await insertOne(bare)) > last + 1_000);
      await setMark(bare, mark());
      const [row] = await rowsOf(bare, "dbq_tasks");
      assert.ok(row);
      const moved = (await bare.moving.lastId("dbq_tasks")) + 500;
      assert.ok(await bare.moving.write("r1", "dbq_tasks", [[moved, ...row.slice(1)]], []));
      assert.equal(await bare.moving.lastId("dbq_tasks"), moved);
      await bare.moving.setLastId("dbq_tasks", moved);
      const next = await insertOne(bare);
      assert.ok(next > moved);
      assert.equal((await recordOf(bare, next)).status, "pending");
    }),
  ],
};
