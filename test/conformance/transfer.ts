import assert from "node:assert/strict";
import type { FullStore } from "../../src/features/store.ts";
import type { MovedRow, MovedTable, TransferState } from "../../src/features/transfer/contract.ts";
import { claimBy, insert, insertOne, newTask, newWorker, oneInEach, recordOf, taskIn } from "./arrange.ts";
import type { Case, Context, Group } from "./case.ts";

const refusal = "this queue is being moved: it takes no more writes";
const transferState = (changes: Partial<TransferState> = {}): TransferState => ({
  moveId: "m1",
  run: "r1",
  phase: "filling",
  other: "another database é",
  refusal,
  ...changes,
});

/** Sets the transfer state, whatever it was before. */
async function setTransferState(
  { transfer: own }: FullStore,
  next: TransferState | undefined,
): Promise<void> {
  assert.ok(await own.setState(next, await own.state()));
}

/** All rows, in the order of their ids. */
async function rowsOf({ transfer }: FullStore, table: MovedTable): Promise<MovedRow[]> {
  const versions = await transfer.rowVersions(table, Number.MIN_SAFE_INTEGER, 1_000);
  return await transfer.read(
    table,
    versions.map(({ id }) => id),
  );
}

const refused = (error: unknown) => error instanceof Error && error.message.includes(refusal);

/** A case that unfreezes the database in the end: other cases have their rows in it. */
function moving(name: string, run: (ctx: Context) => Promise<void>, needs: Case["needs"] = []): Case {
  return {
    name,
    needs,
    run: async (ctx) => {
      try {
        await run(ctx);
      } finally {
        const { transfer: own } = ctx.bare;
        const now = await own.state();
        if (now) await own.unfreeze(now.run);
        await setTransferState(ctx.bare, undefined);
      }
    },
  };
}

export const transferGroup: Group = {
  name: "transfer",
  cases: [
    moving("a transfer writes every column of a row as it was read", async ({ bare, sql }) => {
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

      await setTransferState(bare, transferState());
      const idsOf = (rows: MovedRow[]) => rows.map(([id]) => id);
      assert.ok(await bare.transfer.write("r1", "dbq_tasks", [], idsOf(read.tasks)));
      assert.ok(await bare.transfer.write("r1", "dbq_attempts", read.attempts, idsOf(read.attempts)));
      assert.deepEqual(await bare.get(ids), []);
      assert.ok(await bare.transfer.write("r1", "dbq_tasks", read.tasks, []));
      const byId = (a: { id: number }, b: { id: number }) => a.id - b.id;
      assert.deepEqual((await bare.get(ids)).sort(byId), [...tasks].sort(byId));
      assert.deepEqual(await Promise.all(ids.map((id) => bare.attempts(id))), attempts);
      assert.deepEqual(await rowsOf(bare, "dbq_attempts"), read.attempts);
    }),
    moving("a transfer write that fails writes nothing", async ({ bare }) => {
      const [first, second] = await insert(bare, {}, {});
      const [row, other] = await rowsOf(bare, "dbq_tasks");
      assert.ok(first && second && row && other);
      await setTransferState(bare, transferState());
      const again: MovedRow = [...other];
      await assert.rejects(bare.transfer.write("r1", "dbq_tasks", [row, again], [first]));
      assert.deepEqual((await rowsOf(bare, "dbq_tasks")).length, 2);
    }),
    moving(
      "a row's version changes with each state change, and tells whether the task holds a unique key",
      async ({ bare }) => {
        const failed = await taskIn(bare, "failed", { uniqueKey: "k1" });
        const held = await insertOne(bare, { uniqueKey: "k2", args: '["é"]' });
        const versions = () => bare.transfer.rowVersions("dbq_tasks", 0, 10);
        const before = await versions();
        assert.deepEqual(
          before.map(({ id, keyed }) => ({ id, keyed })),
          [
            { id: failed.id, keyed: false },
            { id: held, keyed: true },
          ],
        );
        assert.equal(before[1]?.bytes, Buffer.byteLength('["é"]') + "{}{}k2".length);
        assert.deepEqual(await versions(), before);
        await bare.cancel(held, "{}");
        const [same, other] = await versions();
        assert.deepEqual(same, before[0]);
        assert.notEqual(other?.version, before[1]?.version);
        assert.equal(other?.keyed, false);
        assert.deepEqual(await bare.transfer.rowVersions("dbq_tasks", failed.id, 10), [other]);
        assert.deepEqual(await bare.transfer.rowVersions("dbq_tasks", 0, 1), [same]);
        assert.equal((await bare.transfer.rowVersions("dbq_attempts", 0, 10)).length, 1);
        assert.deepEqual(
          [await bare.transfer.size("dbq_tasks"), await bare.transfer.size("dbq_attempts")],
          [2, 1],
        );
      },
    ),
    moving(
      "a row's version changes when SQL changes any column that the move carries over",
      async ({ bare, sql }) => {
        await insertOne(bare, { args: '["old"]' });
        const version = async () => (await bare.transfer.rowVersions("dbq_tasks", 0, 10))[0]?.version;
        const changes = [
          ...["priority = 9", "wait_until = created_at", "queue_name = 'other'", "max_retries = 7"],
          ...["args = '[\"a longer one\"]'", "meta = '{\"a\": 1}'", "unique_key = 'k'", "request_id = 'r'"],
          ...["func = 'other'", "timeout = 5", "retry_count = 1", "progress_note = 'half'"],
        ];
        let before = await version();
        for (const change of changes) {
          await sql(`update dbq_tasks set ${change}`);
          const now = await version();
          assert.notEqual(now, before, change);
          assert.equal(await version(), now);
          before = now;
        }
      },
    ),
    moving("an id beyond 2^53 is refused, and the error names it", async ({ bare, sql }) => {
      await insertOne(bare);
      // The id is negative, so that the sequence of ids continues as before.
      await sql("insert into dbq_tasks (id, func) values (-9007199254740993, 'f')");
      await assert.rejects(
        bare.transfer.rowVersions("dbq_tasks", -9e18, 10),
        /dbq_tasks -9007199254740993: an id beyond 2\^53 cannot be carried over/,
      );
      await sql("delete from dbq_tasks where id < 0");
    }),
    moving("a run freezes and unfreezes its own transfer only", async ({ bare, sql }) => {
      assert.deepEqual(
        [await bare.transfer.freeze("r1"), await bare.transfer.unfreeze("r1")],
        [false, false],
      );
      await setTransferState(bare, transferState({ phase: "closing" }));
      assert.equal(await bare.transfer.freeze("r2"), false);
      const id = await insertOne(bare);
      assert.equal(await bare.transfer.freeze("r1"), true);
      assert.equal(await bare.transfer.unfreeze("r2"), false);
      await assert.rejects(bare.insert([newTask()], "report"), refused);
      await setTransferState(bare, transferState({ phase: "closing", run: "r2" }));
      assert.equal(await bare.transfer.unfreeze("r1"), false);
      await assert.rejects(bare.insert([newTask()], "report"), refused);
      // The new run unfreezes what an earlier run of the same move froze.
      assert.deepEqual([await bare.transfer.freeze("r2"), await bare.transfer.unfreeze("r2")], [true, true]);
      await sql(`update dbq_tasks set priority = 1 where id = ${id}`);
      await insertOne(bare);
    }),
    moving(
      "a frozen source refuses to delete tasks once it is being closed or has been moved",
      async ({ bare, sql }) => {
        const { pending } = await oneInEach(bare);
        const before = await rowsOf(bare, "dbq_tasks");
        for (const state of ["closing", "moved"] as const) {
          await setTransferState(bare, transferState({ phase: state }));
          await bare.transfer.freeze("r1");
          await assert.rejects(bare.purge({ includeRunning: true }, 10, 0), refused);
          await assert.rejects(sql(`delete from dbq_tasks where id = ${pending.id}`));
          assert.deepEqual(await rowsOf(bare, "dbq_tasks"), before);
          assert.equal((await bare.purge({ func: "unknown", includeRunning: true }, 10, 0)).purged, 0);
          await bare.transfer.unfreeze("r1");
        }
        await setTransferState(bare, transferState({ phase: "preparing" }));
        await bare.transfer.freeze("r1");
        await bare.purge({ includeRunning: true }, 10, 0);
        assert.deepEqual(await rowsOf(bare, "dbq_tasks"), []);
      },
    ),
    moving(
      "a frozen database refuses inserts, updates and new workers, by dbq and by raw SQL",
      async (ctx) => {
        const { bare, sql } = ctx;
        const { pending } = await oneInEach(bare);
        const before = await rowsOf(bare, "dbq_tasks");
        await setTransferState(bare, transferState({ phase: "closing" }));
        assert.equal(await bare.transfer.freeze("r1"), true);
        await assert.rejects(bare.insert([newTask()], "report"), refused);
        await assert.rejects(bare.insert([newTask({ uniqueKey: "k" }), newTask()], "report"), refused);
        await assert.rejects(bare.cancel(pending.id, "{}"), refused);
        await assert.rejects(bare.register(newWorker("w9")), refused);
        await assert.rejects(sql("insert into dbq_tasks (func) values ('raw')"));
        await assert.rejects(sql(`update dbq_tasks set priority = 1 where id = ${pending.id}`));
        assert.deepEqual(await rowsOf(bare, "dbq_tasks"), before);
        // A worker that finds no task to claim gets no error.
        const nothing = await bare.settleAndClaim({
          outcomes: [],
          claim: claimBy("w1", { funcs: ["unknown"] }),
        });
        assert.deepEqual(nothing.claimed, []);
        assert.equal((await bare.promote(10)).promoted, 0);
        for (const method of ["freeze", "unfreeze", "unfreeze"] as const)
          assert.equal(await bare.transfer[method]("r1"), true);
        assert.ok((await bare.cancel(pending.id, "{}"))?.changed);
        assert.ok((await insertOne(bare)) > pending.id);
        await bare.register(newWorker("w9"));
      },
    ),
    moving(
      "freeze waits for open transactions and refuses the writes that come after them",
      async (ctx) => {
        const { bare, database } = ctx;
        const another = await ctx.another();
        const open = await database.begin();
        await bare.within(open.handle).insert([newTask({ func: "late" })], "report");
        await bare.transfer.size("dbq_tasks");
        let frozen = false;
        // The state is set here too: on SQLite, that waits like any other write.
        const freezing = (async () => {
          await setTransferState(bare, transferState({ phase: "closing" }));
          await bare.transfer.freeze("r1");
          frozen = true;
        })();
        for (let i = 0; i < 20; i += 1) await another.transfer.size("dbq_tasks");
        assert.equal(frozen, false);
        await open.commit();
        await freezing;
        assert.equal(await bare.transfer.size("dbq_tasks"), 1);
        await assert.rejects(another.insert([newTask()], "report"), refused);
      },
      ["several connections"],
    ),
    moving("only the run that fills a frozen target writes to it", async ({ bare }) => {
      await insert(bare, {}, { uniqueKey: "k" });
      const rows = await rowsOf(bare, "dbq_tasks");
      const ids = rows.map(([id]) => id);
      await setTransferState(bare, transferState());
      assert.equal(await bare.transfer.freeze("r1"), true);
      const write = (run: string) => bare.transfer.write(run, "dbq_tasks", rows, ids);
      assert.deepEqual([await write("r2"), await bare.transfer.removeKeyedTasks("r2")], [false, false]);
      assert.deepEqual(await rowsOf(bare, "dbq_tasks"), rows);
      assert.deepEqual([await write("r1"), await bare.transfer.removeKeyedTasks("r1")], [true, true]);
      assert.deepEqual(await rowsOf(bare, "dbq_tasks"), rows.slice(0, 1));
      await assert.rejects(bare.insert([newTask()], "report"), refused);
      assert.ok(await bare.transfer.advance("r1", "filling", "filled"));
      assert.equal(await write("r1"), false);
    }),
    moving("the transfer state is stored, and only its own move's run advances it", async (ctx) => {
      const { transfer: own } = ctx.bare;
      assert.equal(await own.state(), undefined);
      const copying = transferState({ phase: "copying" });
      assert.equal(await own.setState(copying, undefined), true);
      assert.deepEqual(await own.state(), copying);
      assert.equal(await own.advance("r2", "copying", "closing"), false);
      assert.equal(await own.advance("r1", "closing", "moved"), false);
      assert.equal(await own.advance("r1", "copying", "closing"), true);
      // Repeating a step that has been taken succeeds.
      assert.equal(await own.advance("r1", "copying", "closing"), true);
      assert.deepEqual(await own.state(), transferState({ phase: "closing" }));
      const other = transferState({ moveId: "m2", run: "r2", phase: "preparing" });
      for (const seen of [undefined, copying, transferState({ run: "r3", phase: "closing" })])
        assert.equal(await own.setState(other, seen), false);
      assert.equal(await own.setState(undefined, copying), false);
      assert.deepEqual(await own.state(), transferState({ phase: "closing" }));
      for (let i = 0; i < 2; i += 1)
        assert.equal(await own.setState(other, transferState({ phase: "closing" })), true);
      assert.deepEqual(await own.state(), other);
      for (let i = 0; i < 2; i += 1) assert.equal(await own.setState(undefined, other), true);
      assert.equal(await own.state(), undefined);
    }),
    moving(
      "new ids continue above the last id, even when the task with the last id is deleted",
      async ({ bare }) => {
        const last = await insertOne(bare);
        await bare.purge({ includeRunning: true }, 10, 0);
        assert.equal(await bare.transfer.lastId("dbq_tasks"), last);
        await bare.transfer.setLastId("dbq_tasks", last + 1_000);
        assert.equal(await bare.transfer.lastId("dbq_tasks"), last + 1_000);
        await bare.transfer.setLastId("dbq_tasks", last + 10);
        assert.ok((await insertOne(bare)) > last + 1_000);
        await setTransferState(bare, transferState());
        const [row] = await rowsOf(bare, "dbq_tasks");
        assert.ok(row);
        const moved = (await bare.transfer.lastId("dbq_tasks")) + 500;
        assert.ok(await bare.transfer.write("r1", "dbq_tasks", [[moved, ...row.slice(1)]], []));
        assert.equal(await bare.transfer.lastId("dbq_tasks"), moved);
        await bare.transfer.setLastId("dbq_tasks", moved);
        const next = await insertOne(bare);
        assert.ok(next > moved);
        assert.equal((await recordOf(bare, next)).status, "pending");
      },
    ),
  ],
};
