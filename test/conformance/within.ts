import assert from "node:assert/strict";
import { AsyncTransactionError, DuplicateTaskError } from "../../src/errors.ts";
import type { FullStore, FullTransaction } from "../../src/features/store.ts";
import { insertOne, minute, newTask, outcomes, recordOf, running } from "./arrange.ts";
import type { AppDatabase, Context, Group } from "./case.ts";
import { appTransaction, got, savepoint, transaction } from "./steps.ts";

class Undo extends Error {}

async function countIn({ store }: Context): Promise<number> {
  return (await store.list({}, 100, undefined)).length;
}

/** The error of a call, thrown or rejected. */
async function thrownBy(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return undefined;
}

const one = [newTask()];

/**
 * Runs an insert and a settle without awaiting them, in a transaction that rolls back at once and in one that commits.
 */
async function endsWithIts(
  store: FullStore,
  inTransaction: (fn: (tx: unknown) => Promise<unknown>) => Promise<unknown>,
): Promise<void> {
  const task = await running(store);
  const begin = (tx: unknown) => {
    const inside = store.within(tx);
    return Promise.allSettled([inside.insert(one, "report"), inside.settle(outcomes.completed(task))]);
  };
  let begun: Promise<unknown> | undefined;
  const undone = inTransaction(async (tx) => {
    begun = begin(tx);
    throw new Undo();
  });
  assert.ok((await thrownBy(() => undone)) instanceof Undo);
  await begun;
  assert.deepEqual(await store.list({}, 10, undefined), [task]);

  await inTransaction(async (tx) => {
    begun = begin(tx);
  });
  const statuses = (await store.list({}, 10, undefined)).map(({ status }) => status);
  assert.deepEqual(statuses, ["pending", "completed"]);
  await begun;
}

export const withinGroup: Group = {
  name: "transaction and within",
  cases: [
    {
      name: "a task inserted in a transaction is pending after the commit",
      run: async (ctx) => {
        const id = await transaction(ctx.store, function* (inside) {
          const [first] = yield* got(inside.insert([newTask({ args: "[1]" })], "report"));
          return first?.id;
        });
        const { args, generationId, status } = await recordOf(ctx.store, id as number);
        assert.deepEqual({ args, generationId, status }, { args: "[1]", generationId: 1, status: "pending" });
      },
    },
    {
      name: "an error rolls the transaction back and reaches the caller unchanged",
      run: async (ctx) => {
        const undo = new Undo();
        const undone = transaction(ctx.store, function* (inside) {
          yield* got(inside.insert(one, "report"));
          throw undo;
        });
        assert.equal(await thrownBy(() => undone), undo);
        assert.equal(await countIn(ctx), 0);
      },
    },
    {
      name: "a synchronous store refuses a callback that returns a promise, and rolls back",
      run: async (ctx) => {
        if (!ctx.store.synchronous) return;
        const undone = ctx.store.transaction((tx) => {
          ctx.store.within(tx).insert(one, "report");
          return Promise.resolve(1);
        });
        assert.ok((await thrownBy(() => undone)) instanceof AsyncTransactionError);
        assert.equal(await countIn(ctx), 0);
      },
    },
    {
      name: "a transaction sees its own duplicates, and stays usable after a refused one, which writes nothing",
      run: async (ctx) => {
        await transaction(ctx.store, function* (inside) {
          const [first] = yield* got(inside.insert([newTask({ uniqueKey: "k" })], "report"));
          const [again] = yield* got(inside.insert([newTask({ uniqueKey: "k" })], "report"));
          assert.deepEqual(again, { id: first?.id, duplicate: true });
          try {
            yield* got(inside.insert([newTask(), newTask({ uniqueKey: "k" })], { refuse: [false, true] }));
            assert.fail("the duplicate was accepted");
          } catch (error) {
            assert.ok(error instanceof DuplicateTaskError);
            assert.equal(error.taskId, first?.id);
          }
          yield* got(inside.insert(one, "report"));
        });
        assert.equal(await countIn(ctx), 2);
      },
    },
    {
      name: "a settle takes effect when its transaction commits, and not when it rolls back",
      run: async ({ store }) => {
        const task = await running(store);
        const settle = function* (inside: FullTransaction) {
          assert.equal(yield* got(inside.settle(outcomes.completed(task))), true);
        };
        const undone = transaction(store, function* (inside) {
          yield* settle(inside);
          throw new Undo();
        });
        assert.ok((await thrownBy(() => undone)) instanceof Undo);
        assert.deepEqual(await recordOf(store, task.id), task);

        await transaction(store, settle);
        const { status, result, generationId } = await recordOf(store, task.id);
        assert.deepEqual([status, result], ["completed", '{"bytes":123}']);
        assert.equal(generationId, task.generationId + 1);
      },
    },
    {
      name: "a settle of a stale generation changes nothing, and the transaction continues",
      run: async ({ store }) => {
        const task = await running(store);
        const stale = { ...task, generationId: task.generationId - 1 };
        await transaction(store, function* (inside) {
          for (const outcome of Object.values(outcomes))
            assert.equal(yield* got(inside.settle(outcome(stale))), false);
          yield* got(inside.insert(one, "report"));
        });
        assert.deepEqual(await recordOf(store, task.id), task);
        assert.deepEqual(await store.attempts(task.id), []);
        assert.equal((await store.list({}, 10, undefined)).length, 2);
      },
    },
    {
      name: "rolling back a savepoint removes its tasks and no others",
      run: async ({ store }) => {
        await transaction(store, function* (inside, tx) {
          yield* got(inside.insert([newTask({ args: '["outer"]' })], "report"));
          yield* savepoint(tx, store, function* (inner) {
            yield* got(inner.insert([newTask({ args: '["kept"]' })], "report"));
          });
          try {
            yield* savepoint(tx, store, function* (inner) {
              yield* got(inner.insert([newTask({ args: '["undone"]' })], "report"));
              throw new Undo();
            });
          } catch (error) {
            assert.ok(error instanceof Undo);
          }
        });
        const args = (await store.list({}, 10, undefined)).map((record) => record.args);
        assert.deepEqual(args, ['["kept"]', '["outer"]']);
      },
    },
    {
      name: "a call after the end of its transaction throws and writes nothing",
      run: async (ctx) => {
        const task = await running(ctx.store);
        const bound: FullTransaction[] = [];
        const handles: unknown[] = [];
        await transaction(ctx.store, function* (inside, tx) {
          bound.push(inside);
          handles.push(tx);
          yield* got(inside.insert(one, "report"));
        });
        const uses = [
          () => bound[0]?.insert(one, "report"),
          () => bound[0]?.settle(outcomes.completed(task)),
          () => ctx.store.within(handles[0]).insert(one, "report"),
        ];
        for (const use of uses) assert.ok((await thrownBy(use)) instanceof AsyncTransactionError);
        assert.equal(await countIn(ctx), 2);
        assert.deepEqual(await recordOf(ctx.store, task.id), task);
      },
    },
    {
      name: "a write that is not awaited commits or rolls back with its transaction",
      run: async ({ bare: store }) => {
        if (!store.synchronous) await endsWithIts(store, (fn) => store.transaction(fn));
      },
    },
    {
      name: "a write that is not awaited commits or rolls back with the app's own transaction",
      needs: ["an app's connection", "transactions that await their writes"],
      run: async ({ bare: store, database }) => {
        const app = database.app();
        if (!store.synchronous) await endsWithIts(store, async (fn) => await app.transaction(fn));
      },
    },
    {
      name: "writes that continue while their transaction ends are refused, and nothing of them is kept",
      run: async ({ bare: store }) => {
        if (store.synchronous) return;
        let chain: Promise<unknown> | undefined;
        const undone = store.transaction(async (tx) => {
          chain = thrownBy(async () => {
            for (;;) await store.within(tx).insert(one, "report");
          });
          throw new Undo();
        });
        assert.ok((await thrownBy(() => undone)) instanceof Undo);
        assert.ok((await chain) instanceof AsyncTransactionError);
        assert.deepEqual(await store.list({}, 10, undefined), []);
      },
    },
    {
      name: "a write that is not awaited in a savepoint ends with the outer transaction",
      needs: ["an app's connection", "transactions that await their writes"],
      run: async ({ bare: store, database }) => {
        if (store.synchronous) return;
        let inner: Promise<unknown> | undefined;
        const undone = async (outer: AppDatabase) => {
          await new Promise<void>((begun) => {
            const write = async (tx: AppDatabase) => {
              const inserting = store.within(tx).insert(one, "report");
              begun();
              await inserting;
            };
            inner = thrownBy(() => outer.transaction(write));
          });
          throw new Undo();
        };
        assert.ok((await thrownBy(() => database.app().transaction(undone))) instanceof Undo);
        await inner;
        assert.deepEqual(await store.list({}, 10, undefined), []);
      },
    },
    {
      name: "within refuses a value that is not a transaction",
      run: async ({ store }) => {
        for (const other of [undefined, null, 1, "tx", {}, { run: () => undefined }, () => undefined]) {
          assert.ok(
            (await thrownBy(() => store.within(other))) instanceof TypeError,
            `took ${String(other)}`,
          );
        }
      },
    },
    {
      name: "within takes the app's own transaction, and the app's plain database",
      needs: ["an app's connection"],
      run: async (ctx) => {
        const { database, store } = ctx;
        const undone = appTransaction(database.app(), store, function* (inside) {
          yield* got(inside.insert(one, "report"));
          throw new Undo();
        });
        assert.ok((await thrownBy(() => undone)) instanceof Undo);
        assert.equal(await countIn(ctx), 0);
        await appTransaction(database.app(), store, function* (inside) {
          yield* got(inside.insert(one, "report"));
        });
        await store.within(database.app()).insert(one, "report");
        assert.equal(await countIn(ctx), 2);
      },
    },
    {
      name: "times written on the app's connections come from the database's clock, free of time zones",
      needs: ["an app's connection"],
      run: async ({ database, store }) => {
        const task = await running(store);
        const [id] = await appTransaction(database.app(), store, function* (inside) {
          assert.equal(yield* got(inside.settle(outcomes.completed(task))), true);
          const inserted = yield* got(inside.insert([newTask({ delay: 10 * minute })], "report"));
          return inserted.map((each) => each.id);
        });
        const { createdAt, waitUntil } = await recordOf(store, id as number);
        const { finishedAt, startedAt } = await recordOf(store, task.id);
        assert.ok(Math.abs((waitUntil ?? 0) - createdAt - 10 * minute) < minute);
        for (const time of [createdAt, finishedAt, startedAt])
          assert.ok(Math.abs((time ?? 0) - Date.now()) < minute, `${time} is not now`);
      },
    },
    {
      name: "other connections neither see nor claim a task before the commit",
      needs: ["several connections"],
      run: async ({ database, store }) => {
        const seen = await insertOne(store);
        const open = await database.begin();
        const [inside] = await store.within(open.handle).insert(one, "report");
        const { id } = inside as { id: number };
        assert.deepEqual(await store.get([id]), []);
        assert.deepEqual(
          (await store.list({}, 10, undefined)).map((record) => record.id),
          [seen],
        );
        await open.commit();
        assert.equal((await recordOf(store, id)).generationId, 1);
      },
    },
    {
      name: "a key that another connection took after the app's transaction began is a duplicate in it",
      needs: ["several connections"],
      run: async ({ database, bare }) => {
        // Where only one transaction writes at a time, no other connection can take the key meanwhile.
        if (bare.synchronous) return;
        const open = await database.begin();
        const inside = bare.within(open.handle);
        await inside.insert([newTask({ uniqueKey: "mine" })], "report");
        const holder = await insertOne(bare, { uniqueKey: "k" });
        assert.deepEqual(await inside.insert([newTask({ uniqueKey: "k" })], "report"), [
          { id: holder, duplicate: true },
        ]);
        await open.commit();
        assert.equal((await bare.list({}, 10, undefined)).length, 2);
      },
    },
    {
      name: "a write waits for another connection's transaction without blocking the thread, and is not lost",
      needs: ["several connections"],
      run: async ({ database, bare }) => {
        const open = await database.begin();
        const [undone] = await bare.within(open.handle).insert([newTask({ uniqueKey: "k" })], "report");
        const waiting = bare.insert([newTask({ uniqueKey: "k" })], "report");
        // The rollback runs only if the waiting insert leaves the thread free.
        await new Promise((resolve) => setTimeout(resolve));
        await open.rollback();
        const [inserted] = await waiting;
        assert.equal(inserted?.duplicate, false);
        assert.deepEqual(
          (await bare.list({}, 10, undefined)).map(({ id }) => id),
          [inserted?.id],
        );
        assert.ok(undone);
      },
    },
  ],
};
