import assert from "node:assert/strict";
import { AsyncTransactionError, DuplicateTaskError } from "../../src/errors.ts";
import type { Store, StoreTransaction } from "../../src/store.ts";
import { insertOne, minute, newTask, outcomes, recordOf, running } from "./arrange.ts";
import type { AppDatabase, Context, Group } from "./case.ts";
import { appTransaction, got, savepoint, transaction } from "./steps.ts";

class Undo extends Error {}

async function countIn({ store }: Context): Promise<number> {
  return (await store.list({}, 100, undefined)).length;
}

/** What a call threw, whether at once or by its promise. */
async function thrownBy(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return undefined;
}

const one = [newTask()];

/** An insert and a settle that nobody awaits, in a transaction that is rolled back at once, and in one that commits. */
async function endsWithIts(
  store: Store,
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
      name: "what is inserted in a transaction is there after its commit, and gives its value",
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
      name: "an error rolls back and comes out as it is",
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
      name: "sees its own duplicates; one that is refused leaves the transaction usable and nothing of itself",
      run: async (ctx) => {
        await transaction(ctx.store, function* (inside) {
          const [first] = yield* got(inside.insert([newTask({ uniqueKey: "k" })], "report"));
          const [again] = yield* got(inside.insert([newTask({ uniqueKey: "k" })], "report"));
          assert.deepEqual(again, { id: first?.id, duplicate: true });
          try {
            yield* got(inside.insert([newTask(), newTask({ uniqueKey: "k" })], { refuse: [false, true] }));
            assert.fail("it was not refused");
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
      name: "settles: for good when it commits, not at all when it is rolled back",
      run: async ({ store }) => {
        const task = await running(store);
        const settle = function* (inside: StoreTransaction) {
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
      name: "a stale generation settles nothing, and the transaction goes on",
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
      name: "a savepoint that is rolled back takes its tasks with it, and no others",
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
      name: "used after its transaction has ended it throws, and writes nothing",
      run: async (ctx) => {
        const task = await running(ctx.store);
        const bound: StoreTransaction[] = [];
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
      name: "what is not awaited ends with its transaction: committed with it, or undone",
      run: async ({ bare: store }) => {
        if (!store.synchronous) await endsWithIts(store, (fn) => store.transaction(fn));
      },
    },
    {
      name: "what is not awaited ends with the app's own transaction, too",
      needs: ["an app's connection", "transactions whose end waits"],
      run: async ({ bare: store, place }) => {
        const app = place.app();
        if (!store.synchronous) await endsWithIts(store, async (fn) => await app.transaction(fn));
      },
    },
    {
      name: "nor is anything of a chain that goes on while its transaction ends",
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
      name: "what is not awaited in a savepoint ends with the transaction around it",
      needs: ["an app's connection", "transactions whose end waits"],
      run: async ({ bare: store, place }) => {
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
        assert.ok((await thrownBy(() => place.app().transaction(undone))) instanceof Undo);
        await inner;
        assert.deepEqual(await store.list({}, 10, undefined), []);
      },
    },
    {
      name: "takes no other things for transactions",
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
      name: "takes the app's own transaction, and the app's plain database",
      needs: ["an app's connection"],
      run: async (ctx) => {
        const { place, store } = ctx;
        const undone = appTransaction(place.app(), store, function* (inside) {
          yield* got(inside.insert(one, "report"));
          throw new Undo();
        });
        assert.ok((await thrownBy(() => undone)) instanceof Undo);
        assert.equal(await countIn(ctx), 0);
        await appTransaction(place.app(), store, function* (inside) {
          yield* got(inside.insert(one, "report"));
        });
        await store.within(place.app()).insert(one, "report");
        assert.equal(await countIn(ctx), 2);
      },
    },
    {
      name: "times that are written on the app's connections are of the database's clock, and in no zone",
      needs: ["an app's connection"],
      run: async ({ place, store }) => {
        const task = await running(store);
        const [id] = await appTransaction(place.app(), store, function* (inside) {
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
      name: "nobody sees or claims the row before the commit",
      needs: ["several connections"],
      run: async ({ place, store }) => {
        const seen = await insertOne(store);
        const open = await place.begin();
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
      name: "a key that another one took after the app's transaction began is a duplicate there too",
      needs: ["several connections"],
      run: async ({ place, bare }) => {
        // Where one transaction at a time writes, nobody can take it meanwhile.
        if (bare.synchronous) return;
        const open = await place.begin();
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
      name: "a write waits for another's transaction, off the thread, and is not lost",
      needs: ["several connections"],
      run: async ({ place, bare }) => {
        const open = await place.begin();
        const [undone] = await bare.within(open.handle).insert([newTask({ uniqueKey: "k" })], "report");
        const waiting = bare.insert([newTask({ uniqueKey: "k" })], "report");
        // Only a thread that is free gets to the rollback.
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
