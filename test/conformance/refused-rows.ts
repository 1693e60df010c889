import assert from "node:assert/strict";
import type { Crash, KeptTask } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { claim, claimBy, insert, insertOne, minute, recordOf } from "./arrange.ts";
import type { Case, Context, Group } from "./case.ts";

const isMysql = ({ kind }: Context) => /mysql|mariadb/i.test(kind.name);
const isSqlite = ({ kind }: Context) => /sqlite/i.test(kind.name);

/** A trigger of the app's, which refuses each change of the tasks of one function. */
function statementsOf(ctx: Context): { create: string[]; drop: string } {
  const when = "old.func = 'stubborn'";
  if (isSqlite(ctx))
    return {
      create: [
        `create trigger no before update on dbq_tasks when ${when} begin select raise(abort, 'no way'); end`,
      ],
      drop: "drop trigger no",
    };
  if (isMysql(ctx))
    return {
      create: [
        `create trigger no before update on dbq_tasks for each row
          if ${when} then signal sqlstate '45000' set message_text = 'no way'; end if`,
      ],
      drop: "drop trigger no",
    };
  return {
    create: [
      "create function no_way() returns trigger language plpgsql as $$ begin raise exception 'no way'; end $$",
      `create trigger no before update on dbq_tasks for each row when (${when}) execute function no_way()`,
    ],
    drop: "drop function no_way cascade",
  };
}

async function refusing(ctx: Context, act: () => Promise<void>): Promise<void> {
  const { create, drop } = statementsOf(ctx);
  for (const text of create) await ctx.sql(text);
  try {
    await act();
  } finally {
    await ctx.sql(drop);
  }
}

/** Tasks of which the third is one of a function whose tasks the database lets no one change. */
const some = [{}, {}, { func: "stubborn" }, {}, {}];

async function held(ctx: Context, workerId = "w1"): Promise<TaskRecord[]> {
  await insert(ctx.store, ...some);
  return await claim(ctx.store, claimBy(workerId, { funcs: ["resize", "stubborn"], limit: 5 }));
}

/** Notes what is kept, as `func: reason`. */
function keeping(tasks: readonly TaskRecord[]) {
  const kept: string[] = [];
  const onKept = ({ id, error }: KeptTask) => {
    assert.match(error.message, /no way/);
    kept.push(tasks.find((task) => task.id === id)?.func ?? String(id));
  };
  return { kept, onKept };
}

const statuses = async (ctx: Context) =>
  (await ctx.store.list({}, 10, undefined)).map(({ status }) => status).reverse();

const around = ["pending", "pending", "running", "pending", "pending"];

const leaving: Case = {
  name: "a worker that leaves gives back its tasks around one that the database refuses to change",
  run: async (ctx) => {
    const tasks = await held(ctx);
    await refusing(ctx, async () => {
      const { kept, onKept } = keeping(tasks);
      assert.equal(await ctx.bare.unregister("w1", onKept), 4);
      assert.deepEqual(kept, ["stubborn"]);
      assert.deepEqual(await ctx.bare.workers(), []);
    });
    assert.deepEqual(await statuses(ctx), around);
  },
};

export const refusedRowsGroup: Group = {
  name: "rows that the database refuses to change",
  cases: [
    {
      name: "promote makes due tasks pending around such a row, and passes over it for a while",
      run: async (ctx) => {
        await insert(ctx.store, ...some.map((task) => ({ ...task, delay: minute })));
        await ctx.sql(`update dbq_tasks set wait_until = ${ctx.database.earlier("wait_until", 2 * minute)}`);
        const tasks = await ctx.store.list({}, 10, undefined);
        await refusing(ctx, async () => {
          const { kept, onKept } = keeping(tasks);
          assert.deepEqual(await ctx.bare.promote(10, onKept), { promoted: 4, nextDue: undefined });
          assert.deepEqual(kept, ["stubborn"]);
          const next = await insertOne(ctx.store, { delay: minute });
          await ctx.sql(
            `update dbq_tasks set wait_until = ${ctx.database.earlier("wait_until", 2 * minute)} where id = ${next}`,
          );
          assert.deepEqual(await ctx.bare.promote(10, onKept), { promoted: 1, nextDue: undefined });
          assert.deepEqual(kept, ["stubborn"]);
        });
      },
    },
    {
      name: "a rescue frees the tasks of a dead worker around such a row, and its row goes",
      run: async (ctx) => {
        const tasks = await held(ctx);
        const [{ beat } = { beat: 0 }] = await ctx.store.workers();
        await refusing(ctx, async () => {
          const { kept, onKept } = keeping(tasks);
          const crashes: Crash[] = [];
          const freed = await ctx.bare.rescue("w1", beat, undefined, (some) => crashes.push(...some), onKept);
          assert.deepEqual([freed, crashes.length, kept], [4, 4, ["stubborn"]]);
          assert.deepEqual(await ctx.bare.workers(), []);
        });
        assert.deepEqual(await statuses(ctx), around);
        assert.equal((await recordOf(ctx.store, tasks[0]?.id as number)).retryCount, 1);
      },
    },
    {
      name: "tasks of a worker without a row are freed around such a row, which is passed over for a while",
      run: async (ctx) => {
        const tasks = await held(ctx);
        await ctx.sql("delete from dbq_workers");
        await refusing(ctx, async () => {
          const { kept, onKept } = keeping(tasks);
          const crashes: Crash[] = [];
          const rescued = () => ctx.bare.rescueOrphans(-minute, (some) => crashes.push(...some), onKept);
          assert.deepEqual([await rescued(), await rescued()], [4, 0]);
          assert.deepEqual([crashes.length, kept], [4, ["stubborn"]]);
        });
        assert.deepEqual(await statuses(ctx), around);
      },
    },
    leaving,
    {
      name: "a drain hands over the tasks that it has sent around such a row",
      run: async (ctx) => {
        const tasks = await held(ctx);
        await refusing(ctx, async () => {
          const { kept, onKept } = keeping(tasks);
          const handed = await ctx.bare.drains.handOver(tasks, onKept);
          assert.deepEqual(handed, [true, true, false, true, true]);
          assert.deepEqual(kept, ["stubborn"]);
        });
        assert.deepEqual(
          (await ctx.store.get(tasks.map(({ id }) => id))).filter(({ workerId }) => workerId === "w1").length,
          1,
        );
      },
    },
  ],
};
