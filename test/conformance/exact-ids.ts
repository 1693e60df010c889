import assert from "node:assert/strict";
import { DatabaseError } from "../../src/errors.ts";
import type { FullStore, FullTransaction } from "../../src/features/store.ts";
import type { DuplicatePolicy, NewTask } from "../../src/store.ts";
import { claim, claimBy, insert, insertOne, minute, newTask, newWorker, recordOf } from "./arrange.ts";
import type { Case, Context, Group } from "./case.ts";

/** JavaScript reads the first as the second. */
const [beyond, rounded] = ["9007199254740993", "9007199254740992"];

const isMysql = ({ kind }: Context) => /mysql|mariadb/i.test(kind.name);

const isSqlite = ({ kind }: Context) => /sqlite/i.test(kind.name);
const isPostgres = (ctx: Context) => !isMysql(ctx) && !isSqlite(ctx);

/** Sets the id of the next task. */
async function nextIs(ctx: Context, id: string | number): Promise<void> {
  if (isMysql(ctx)) await ctx.sql(`alter table dbq_tasks auto_increment = ${id}`);
  else if (isSqlite(ctx))
    await ctx.sql(`update sqlite_sequence set seq = ${id} - 1 where name = 'dbq_tasks'`);
  else await ctx.sql(`select setval(pg_get_serial_sequence('dbq_tasks', 'id'), ${id}, false)`);
}

/** Runs a case after which the next cases of this database get ids as before. */
const alone =
  (run: Case["run"]): Case["run"] =>
  async (ctx) => {
    try {
      await run(ctx);
    } finally {
      await ctx.sql(`delete from dbq_tasks where id > ${Number.MAX_SAFE_INTEGER}`);
      if (isMysql(ctx)) await ctx.sql("alter table dbq_tasks auto_increment = 1");
      else if (isPostgres(ctx)) await nextIs(ctx, 1);
    }
  };

/** A row of another program. Without a value of its own, each column has its default. */
async function foreign({ sql }: Context, id: string, values: Readonly<Record<string, string>> = {}) {
  const columns = Object.entries({ id, func: "'resize'", ...values });
  await sql(
    `insert into dbq_tasks (${columns.map(([name]) => name).join()}) values (${columns.map(([, value]) => value).join()})`,
  );
}

const rowsBeyond = async ({ sql }: Context) => {
  const [row] = await sql(`select count(*) as n from dbq_tasks where id > ${Number.MAX_SAFE_INTEGER}`);
  return Number(row?.n);
};

async function isRefused(insertion: () => unknown, id: string): Promise<void> {
  await assert.rejects(
    async () => await insertion(),
    (error) =>
      error instanceof DatabaseError &&
      error.message.includes(id) &&
      /set the next id back/.test(error.message),
  );
}

type Insert = Pick<FullStore | FullTransaction, "insert">["insert"];

/** Enqueues of one task and of several, with a unique key and without. */
const enqueues: Readonly<Record<string, [Partial<NewTask>[], DuplicatePolicy]>> = {
  "of one task": [[{}], "report"],
  "of several tasks": [[{}, {}, {}], "report"],
  "of tasks with options": [[{ requestId: "r" }, { meta: '{"a":1}' }], { refuse: [false, false] }],
  "of a task with a unique key": [[{ uniqueKey: "k" }], "report"],
  "of tasks with and without unique keys": [[{}, { uniqueKey: "k" }, {}], { refuse: [false, true, false] }],
};

async function eachIsRefused(ctx: Context, insertion: Insert): Promise<void> {
  for (const [tasks, policy] of Object.values(enqueues)) {
    await nextIs(ctx, beyond);
    await isRefused(() => insertion(tasks.map(newTask), policy), beyond);
    assert.equal(await rowsBeyond(ctx), 0);
  }
}

const statusesBeyond = async ({ sql }: Context) =>
  (await sql(`select status from dbq_tasks where id > ${Number.MAX_SAFE_INTEGER}`)).map(
    ({ status }) => status,
  );

export const exactIdsGroup: Group = {
  name: "ids that JavaScript has no number for",
  cases: [
    {
      name: "an enqueue whose task would get such an id is refused by that id, and writes nothing",
      run: alone(async (ctx) => {
        const [id] = await insert(ctx.store, {}, {});
        await eachIsRefused(ctx, (tasks, policy) => ctx.bare.insert(tasks, policy));
        assert.equal((await recordOf(ctx.store, id as number)).status, "pending");
      }),
    },
    {
      name: "an enqueue of which one task would get such an id writes none of its tasks",
      run: alone(async (ctx) => {
        await insertOne(ctx.store);
        await ctx.sql("delete from dbq_tasks");
        await nextIs(ctx, Number.MAX_SAFE_INTEGER);
        await isRefused(() => ctx.bare.insert([newTask(), newTask()], "report"), rounded);
        const [row] = await ctx.sql("select count(*) as n from dbq_tasks");
        assert.equal(Number(row?.n), 0);
      }),
    },
    {
      name: "an enqueue in the app's transaction is refused in the same way, also where the app commits",
      needs: ["an app's connection"],
      run: alone(async (ctx) => {
        await insertOne(ctx.store);
        const app = ctx.database.app();
        for (const [tasks, policy] of Object.values(enqueues)) {
          await nextIs(ctx, beyond);
          const { synchronous } = ctx.store;
          let refusal: unknown;
          const enqueue = (tx: object) => ctx.store.within(tx).insert(tasks.map(newTask), policy);
          const note = (error: unknown) => {
            refusal = error;
          };
          if (synchronous)
            app.transaction((tx) => {
              try {
                enqueue(tx);
              } catch (error) {
                note(error);
              }
            });
          else await app.transaction(async (tx) => void (await Promise.resolve(enqueue(tx)).catch(note)));
          await isRefused(() => Promise.reject(refusal), beyond);
          assert.equal(await rowsBeyond(ctx), 0);
        }
      }),
    },
    {
      name: "an enqueue is refused whose unique key a task with such an id holds",
      run: alone(async (ctx) => {
        await foreign(ctx, beyond, { unique_key: "'k'" });
        await assert.rejects(
          ctx.bare.insert([newTask({ uniqueKey: "k" })], "report"),
          new RegExp(`"k".*${beyond}`),
        );
      }),
    },
    {
      name: "a claim passes over such tasks, however many come first, and takes those behind them",
      run: alone(async (ctx) => {
        for (let i = 0; i < 6; i += 1) await foreign(ctx, `900719925474099${3 + i}`, { priority: "9" });
        await foreign(ctx, "-9007199254740993", { priority: "9" });
        await foreign(ctx, "41", { priority: "1" });
        const found = await claim(ctx.store, claimBy("w1", { limit: 3 }));
        assert.deepEqual(
          found.map(({ id }) => id),
          [41],
        );
        assert.deepEqual(await claim(ctx.store, claimBy("w1", { limit: 3, funcs: ["resize", "other"] })), []);
        assert.deepEqual([...new Set(await statusesBeyond(ctx))], ["pending"]);
        await ctx.sql("delete from dbq_tasks where id < 0");
      }),
    },
    {
      name: "a claim of tasks with groups passes over such tasks",
      run: alone(async (ctx) => {
        const sharing = new Map([["resize", { groups: true, uses: [] }]]);
        await foreign(ctx, "41", { group_key: "'a'" });
        await foreign(ctx, "42");
        for (const id of ["9007199254740993", "9007199254740995"]) {
          await foreign(ctx, id, { group_key: "'a'", priority: "9" });
          await foreign(ctx, `${id.slice(0, -1)}${Number(id.at(-1)) + 1}`, { priority: "9" });
        }
        const found = await claim(ctx.store, claimBy("w1", { limit: 2, sharing }));
        assert.deepEqual(found.map(({ id }) => id).sort(), [41, 42]);
        assert.deepEqual(await claim(ctx.store, claimBy("w1", { limit: 2, sharing })), []);
      }),
    },
    {
      name: "promote, rescues and retention pass over such tasks, and take no other task for them",
      run: alone(async (ctx) => {
        const due = { status: "'scheduled'", wait_until: ctx.database.earlier(nowOf(ctx), minute) };
        await foreign(ctx, "41", due);
        await foreign(ctx, beyond, due);
        await foreign(ctx, rounded, { ...due, wait_until: ctx.database.earlier(nowOf(ctx), -minute) });
        assert.deepEqual(await ctx.store.promote(10), {
          promoted: 1,
          nextDue: undefined,
          unreadableId: beyond,
        });
        assert.deepEqual(await statusesBeyond(ctx), ["scheduled", "scheduled"]);
        await ctx.sql("delete from dbq_tasks where id = 41");
        await ctx.sql("update dbq_tasks set status = 'running', worker_id = 'w1'");
        await ctx.store.register(newWorker("w1"));
        assert.equal(await ctx.store.unregister("w1"), 0);
        assert.equal(await ctx.store.rescueOrphans(-minute), 0);
        assert.deepEqual(await statusesBeyond(ctx), ["running", "running"]);
        await ctx.sql(`update dbq_tasks set status = 'completed', finished_at = ${nowOf(ctx)}`);
        await ctx.store.prune({ completed: -minute, failed: 0, cancelled: 0 }, 10);
        await ctx.store.purge({ includeRunning: false }, 10, 0);
        assert.equal(await rowsBeyond(ctx), 2);
      }),
    },
    {
      name: "the look at what is due and diagnose name such an id exactly",
      run: alone(async (ctx) => {
        assert.equal((await ctx.store.promote(10)).unreadableId, undefined);
        await foreign(ctx, beyond);
        assert.equal((await ctx.store.promote(10)).unreadableId, beyond);
        const warnings = (await ctx.store.diagnose()).map(({ warning }) => warning ?? "");
        assert.ok(warnings.some((text) => text.includes(beyond) && /set the next id back/.test(text)));
        await ctx.sql("delete from dbq_tasks");
        await foreign(ctx, `-${beyond}`);
        assert.equal((await ctx.store.promote(10)).unreadableId, `-${beyond}`);
        await ctx.sql("delete from dbq_tasks");
      }),
    },
  ],
};

/** The time of the database in SQL. */
function nowOf(ctx: Context): string {
  if (isMysql(ctx)) return "utc_timestamp(3)";
  return isSqlite(ctx) ? String(Date.now()) : "now()";
}
