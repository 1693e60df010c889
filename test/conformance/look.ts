import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { TaskEdit } from "../../src/features/look/contract.ts";
import { actOnAll } from "../../src/features/operate/bulk.ts";
import { countTo, findTasks } from "../../src/features/operate/find.ts";
import type { FullStore } from "../../src/features/store.ts";
import type { TaskFilter } from "../../src/store.ts";
import { type TaskRecord, type TaskStatus, taskStatuses } from "../../src/task.ts";
import {
  errorText,
  insert,
  insertOne,
  minute,
  newTask,
  oneInEach,
  outcomes,
  reachedStatuses,
  recordOf,
  running,
  settle,
  taskIn,
} from "./arrange.ts";
import type { Case, Group } from "./case.ts";

const ids = async (store: FullStore, filter: TaskFilter, options: { limit?: number; text?: string } = {}) =>
  (await findTasks(store, filter, { limit: 50, ...options })).tasks.map(({ id }) => id);

const added = async (store: FullStore, changes?: Parameters<typeof insertOne>[1]) =>
  await recordOf(store, await insertOne(store, changes));

/** In the order of their ids. */
const eachStatus = async (store: FullStore): Promise<TaskRecord[]> =>
  Object.values(await oneInEach(store)).sort((a, b) => a.id - b.id);

const many = (store: FullStore, amount: number) =>
  insert(store, ...Array.from({ length: amount }, () => ({})));

/** Pages of this size, one after the other. */
async function paged(store: FullStore, filter: TaskFilter, limit: number): Promise<number[]> {
  const found: number[] = [];
  for (let after: number | undefined; ; ) {
    const { tasks, next } = await findTasks(store, filter, { limit, after });
    found.push(...tasks.map(({ id }) => id));
    if (next === null) return found;
    after = next;
  }
}

const finds: Case[] = [
  {
    name: "lists read the beginning of each long column, and its length",
    run: async ({ store }) => {
      const characters = 100;
      const json = (text: string) => JSON.stringify([text]);
      const long = {
        args: json("a".repeat(200_000)),
        kwargs: `{"k":"${"🌊".repeat(98)}"}`,
        meta: `{"m":"${"é".repeat(300)}"}`,
      };
      const short = { args: json("a".repeat(96)), kwargs: `{"k":"${"🌊".repeat(92)}"}`, meta: "{}" };
      const [first = 0, second = 0] = await insert(
        store,
        { ...long, requestId: "r" },
        { ...short, requestId: "r" },
      );
      const lists = [
        await store.look.list({}, 10, undefined, characters),
        (await store.look.get([first, second], characters)).sort((a, b) => b.id - a.id),
        (await findTasks(store, {}, { limit: 10, characters })).tasks,
        (await findTasks(store, { requestId: "r" }, { limit: 10, characters })).tasks,
        (await findTasks(store, {}, { limit: 10, characters, text: "a" })).tasks,
      ];
      const whole = await store.list({}, 10, undefined);
      for (const found of lists) {
        const [ofShort, ofLong] = found;
        assert.deepEqual(
          found.map(({ cut: _, exactId: __, ...record }) => ({ ...record, args: "", kwargs: "", meta: "" })),
          whole.map((record) => ({ ...record, args: "", kwargs: "", meta: "" })),
        );
        assert.deepEqual(
          [ofShort?.args, ofShort?.kwargs, ofShort?.meta, ofShort?.cut],
          [...Object.values(short), {}],
        );
        assert.deepEqual(
          [ofLong?.args, ofLong?.kwargs, ofLong?.meta],
          Object.values(long).map((text) => [...text].slice(0, characters).join("")),
        );
        assert.deepEqual(
          ofLong?.cut,
          Object.fromEntries(Object.entries(long).map(([name, text]) => [name, Buffer.byteLength(text)])),
        );
      }
    },
  },
  {
    name: "lists tell ids apart that JavaScript has no number for, and an action on all tasks leaves those as they are",
    run: async ({ kind, store, bare, sql }) => {
      const id = await insertOne(store);
      for (const end of ["0992", "0993", "0994"])
        await sql(`insert into dbq_tasks (id, func) values (900719925474${end}, 'resize')`);
      const shown = async (filter: TaskFilter) =>
        (await findTasks(store, filter, { limit: 10 })).tasks.map((task) => task.exactId ?? task.id);
      const all = ["9007199254740994", "9007199254740993", "9007199254740992", id];
      assert.deepEqual(await shown({}), all);
      assert.deepEqual(await shown({ status: ["pending"] }), all);
      const acted: number[] = [];
      const act = async (ids: readonly number[]) => {
        acted.push(...ids);
        return [...ids];
      };
      assert.deepEqual(await actOnAll(bare, {}, act, {}), { changed: 1, skipped: 3, next: null });
      assert.deepEqual(acted, [id]);
      // The next cases of this database get ids as before.
      await sql("delete from dbq_tasks where id > 9007199254740991");
      if (/mysql|mariadb/i.test(kind.name)) await sql("alter table dbq_tasks auto_increment = 1");
    },
  },
  {
    name: "each status, and each pair of them, finds its tasks, newest first",
    run: async ({ store }) => {
      const tasks = await eachStatus(store);
      for (const a of reachedStatuses)
        for (const b of reachedStatuses) {
          const status: TaskStatus[] = a === b ? [a] : [a, b];
          const wanted = tasks.filter((task) => status.includes(task.status)).map(({ id }) => id);
          assert.deepEqual(
            await ids(store, { status }),
            wanted.sort((x, y) => y - x),
            status.join(),
          );
          assert.deepEqual(await countTo(store, { status }, { cap: 10 }), {
            count: wanted.length,
            complete: true,
          });
        }
      assert.equal((await ids(store, {})).length, tasks.length);
      assert.equal((await ids(store, { status: taskStatuses })).length, tasks.length);
    },
  },
  {
    name: "pages go on where the last one ended, by an index and by ranges of ids alike",
    run: async ({ store }) => {
      const inserted = (await many(store, 25)).reverse();
      assert.deepEqual(await paged(store, { status: ["pending"] }, 4), inserted);
      assert.deepEqual(await paged(store, {}, 4), inserted);
      assert.deepEqual(await countTo(store, {}, { cap: 20 }), { count: 20, complete: false });
      assert.deepEqual(await countTo(store, { status: ["pending"] }, { cap: 20 }), {
        count: 20,
        complete: false,
      });
    },
  },
  {
    name: "pending tasks are found by their queue, and by their function in it, and no other tasks are",
    run: async ({ store }) => {
      await taskIn(store, "running", { queueName: "mail", func: "send" });
      const [first, second] = [
        await added(store, { queueName: "mail", func: "send" }),
        await added(store, { queueName: "mail", func: "sort" }),
      ];
      await added(store, { func: "send" });
      const status: TaskStatus[] = ["pending"];
      assert.deepEqual(await ids(store, { status, queueName: "mail" }), [second.id, first.id]);
      assert.deepEqual(await ids(store, { status, queueName: "mail", func: "send" }), [first.id]);
      assert.deepEqual(await ids(store, { status, queueName: "none" }), []);
    },
  },
  {
    name: "a unique key, a request id and a time of enqueueing find their tasks",
    run: async ({ store }) => {
      const [first, second] = [
        await added(store, { uniqueKey: "a", requestId: "r" }),
        await added(store, { uniqueKey: "b", requestId: "r" }),
      ];
      assert.deepEqual(await ids(store, { uniqueKey: "a" }), [first.id]);
      assert.deepEqual(await ids(store, { requestId: "r" }), [second.id, first.id]);
      assert.deepEqual(await ids(store, { from: first.createdAt - minute }), [second.id, first.id]);
      assert.deepEqual(await ids(store, { to: first.createdAt - minute }), []);
      assert.deepEqual(await ids(store, { from: second.createdAt + minute }), []);
    },
  },
  {
    name: "a text is found in arguments, kwargs and errors, in any case of letters, and a wildcard is a character",
    run: async ({ store }) => {
      const failed = await taskIn(store, "failed");
      const inArgs = await added(store, { args: '["50% Off"]' });
      const inKwargs = await added(store, { kwargs: '{"to":"Eva_X"}' });
      assert.deepEqual(await ids(store, {}, { text: "50% off" }), [inArgs.id]);
      assert.deepEqual(await ids(store, {}, { text: "EVA_x" }), [inKwargs.id]);
      assert.deepEqual(await ids(store, {}, { text: "5_%" }), []);
      assert.deepEqual(await ids(store, { status: ["failed"] }, { text: JSON.parse(errorText).message }), [
        failed.id,
      ]);
    },
  },
  {
    name: "a text with quotes and backslashes is found as it was written, and as it stands in the JSON",
    run: async ({ store }) => {
      const { id } = await added(store, { args: JSON.stringify(['say "Hi"', "C:\\temp"]) });
      for (const text of ['say "hi"', String.raw`say \"Hi\"`, String.raw`c:\temp`, String.raw`C:\\temp`])
        assert.deepEqual(await ids(store, {}, { text }), [id], text);
    },
  },
  {
    name: "a search among few tasks of a status looks at these alone, page by page, and finds each once",
    run: async ({ store }) => {
      const between = () => insert(store, ...Array.from({ length: 5 }, () => ({ queueName: "other" })));
      const failed: number[] = [];
      for (let n = 0; n < 3; n += 1) {
        failed.unshift((await taskIn(store, "failed")).id);
        await between();
      }
      const text = JSON.parse(errorText).message as string;
      const search = (options: { limit: number; after?: number }) =>
        findTasks(store, { status: ["failed"] }, { text, ...options });
      const all = await search({ limit: 10 });
      assert.deepEqual([all.tasks.map(({ id }) => id), all.looked, all.next], [failed, 3, null]);
      const first = await search({ limit: 2 });
      assert.deepEqual([first.tasks.map(({ id }) => id), first.next], [failed.slice(0, 2), failed[1]]);
      const rest = await search({ limit: 2, after: Number(first.next) });
      assert.deepEqual([rest.tasks.map(({ id }) => id), rest.looked, rest.next], [failed.slice(2), 1, null]);
    },
  },
  {
    name: "a search that runs out of time says how many tasks it has looked at, and where to go on",
    run: async ({ bare: store }) => {
      await many(store, 1_100);
      const search = (after?: number) =>
        findTasks(store, {}, { limit: 10, text: "no such text", after, budget: 0 });
      // It looks at 1,000, and at fewer on a machine that is so busy that these take half a second.
      let found = await search();
      assert.ok(found.looked !== null && found.looked > 0 && found.looked <= 1_000, String(found.looked));
      let looked = found.looked;
      while (found.next !== null) {
        found = await search(found.next);
        looked += found.looked ?? 0;
      }
      assert.deepEqual([looked, found.tasks], [1_100, []]);
    },
  },
];

const edits: Case[] = [
  {
    name: "edit changes what it is given, and makes the task pending or scheduled by its new time",
    run: async ({ store }) => {
      const task = await taskIn(store, "pending", { args: "[1]" });
      const later = task.createdAt + 10 * minute;
      const edited = await store.look.edit(
        task.id,
        { args: "[2]", priority: 9, waitUntil: later },
        undefined,
      );
      const { updatedAt, ...rest } = edited?.record ?? task;
      assert.deepEqual([edited?.changed, rest.generationId], [true, task.generationId + 1]);
      const { updatedAt: _, ...before } = task;
      const changes = {
        args: "[2]",
        priority: 9,
        waitUntil: later,
        status: "scheduled",
        generationId: rest.generationId,
      };
      assert.deepEqual(rest, { ...before, ...changes });
      assert.deepEqual(await recordOf(store, task.id), { ...rest, updatedAt });
      const now = await store.look.edit(task.id, { waitUntil: null }, rest.generationId);
      assert.deepEqual(
        [now?.record.status, now?.record.waitUntil, now?.record.args],
        ["pending", null, "[2]"],
      );
    },
  },
  {
    name: "edit gives a task an expiry by the database's clock, keeps it and takes it away, unless its first attempt has started",
    run: async ({ store }) => {
      const task = await taskIn(store, "pending", {});
      const edited = async (change: TaskEdit, id = task.id) => {
        const { record, changed } = (await store.look.edit(id, change, undefined)) ?? {};
        return { changed, updatedAt: record?.updatedAt ?? 0, expiresAt: record?.expiresAt };
      };
      const { updatedAt, expiresAt } = await edited({ expiresIn: 10 * minute });
      assert.equal(expiresAt, updatedAt + 10 * minute);
      assert.equal((await edited({ priority: 9 })).expiresAt, expiresAt);
      assert.equal((await store.promote(10)).expired, undefined);
      const now = await edited({ expiresIn: 1 });
      assert.equal(now.expiresAt, now.updatedAt + 1);
      assert.equal((await edited({ expiresIn: null })).expiresAt, null);
      const begun = await running(store, { func: "begun" });
      await settle(store, outcomes.retry(begun));
      assert.equal((await edited({ expiresIn: minute }, begun.id)).changed, false);
      assert.equal((await edited({ expiresIn: null }, begun.id)).changed, true);
    },
  },
  {
    name: "edit leaves a task that has started or ended, and one at another generation",
    run: async ({ store }) => {
      for (const task of await eachStatus(store)) {
        const { status } = task;
        const isOpen = status === "pending" || status === "scheduled";
        const expected = isOpen ? task.generationId + 1 : undefined;
        assert.deepEqual(await store.look.edit(task.id, { priority: 9 }, expected), {
          record: task,
          changed: false,
        });
      }
      assert.equal(await store.look.edit(12_345, { priority: 9 }, undefined), undefined);
    },
  },
];

const bulk: Case[] = [
  {
    name: "many are retried, cancelled and deleted at once, and each says which it has changed",
    run: async ({ store }) => {
      const tasks = await eachStatus(store);
      const all = tasks.map(({ id }) => id);
      const of = (...statuses: string[]) =>
        tasks.filter(({ status }) => statuses.includes(status)).map(({ id }) => id);
      assert.deepEqual(await store.look.retryEach(all), of("scheduled", "completed", "failed", "cancelled"));
      assert.deepEqual(await store.look.cancelEach(all.slice(0, 1), errorText), all.slice(0, 1));
      const left = tasks.filter(({ status }) => status === "running").map(({ id }) => id);
      const deleted = await store.look.deleteEach(all);
      assert.deepEqual(
        deleted.sort((a, b) => a - b),
        all.filter((id) => !left.includes(id)),
      );
      assert.deepEqual(await ids(store, {}), left);
    },
  },
  {
    name: "an action on many leaves tasks alone that do not match its filter any more",
    run: async ({ store }) => {
      const acts: Record<string, (ids: number[], still: TaskFilter) => Promise<number[]>> = {
        retry: (some, still) => store.look.retryEach(some, still),
        cancel: (some, still) => store.look.cancelEach(some, errorText, still),
        edit: (some, still) => store.look.editEach(some, { priority: 8 }, still),
        delete: (some, still) => store.look.deleteEach(some, undefined, still),
      };
      for (const [name, act] of Object.entries(acts)) {
        const status: TaskStatus = name === "edit" || name === "cancel" ? "scheduled" : "failed";
        const found = [await taskIn(store, status), await taskIn(store, status)].map(({ id }) => id);
        const [stays = 0, moves = 0] = found;
        await store.retry(moves);
        assert.deepEqual(await act(found, { status: [status] }), [stays], name);
        assert.equal((await recordOf(store, moves)).status, "pending", name);
        await store.look.deleteEach(found);
      }
    },
  },
  {
    name: "many are edited at once: those that wait for their start, with what else they have left as it is",
    run: async ({ store }) => {
      const tasks = await eachStatus(store);
      const open = tasks.filter(({ status }) => status === "pending" || status === "scheduled");
      const all = tasks.map(({ id }) => id);
      assert.deepEqual(
        await store.look.editEach(all, { queueName: "other", priority: 8 }),
        open.map(({ id }) => id),
      );
      for (const { id, status, args, waitUntil } of open) {
        const now = await recordOf(store, id);
        assert.deepEqual(
          [now.status, now.args, now.waitUntil, now.queueName, now.priority],
          [status, args, waitUntil, "other", 8],
        );
      }
    },
  },
  {
    name: "a task whose key another one holds is left out of a retry of many, and the others are retried",
    run: async ({ store }) => {
      const done = await taskIn(store, "completed", { uniqueKey: "k" });
      const other = await taskIn(store, "completed");
      await insertOne(store, { uniqueKey: "k" });
      assert.deepEqual(await store.look.retryEach([done.id, other.id]), [other.id]);
      assert.deepEqual(await recordOf(store, done.id), done);
    },
  },
  {
    name: "an action of a person and what is kept of it are one transaction: neither is there without the other",
    run: async ({ store, sql }) => {
      const entry = { actor: "eva", action: "cancel", target: "some tasks", reason: null };
      const kept = async () =>
        (await store.look.audits(undefined, 10)).map(({ action, count }) => [action, count]);
      const [a = 0, b = 0, c = 0] = await many(store, 3);
      const each = store.noting({ ...entry, countOf: (ids) => (ids as number[]).length });
      assert.deepEqual(await each.look.cancelEach([a, b], errorText), [a, b]);
      assert.deepEqual(await kept(), [["cancel", 2]]);
      assert.deepEqual(await each.look.cancelEach([a, c], errorText), [c]);
      assert.deepEqual(await each.look.cancelEach([a], errorText), []);
      assert.deepEqual(await kept(), [["cancel", 3]], "one row for the whole action");

      const once = (_: unknown, isFirst: boolean) => Number(isFirst);
      const noting = (action: string) => store.noting({ ...entry, action, countOf: once });
      await noting("enqueue").insert([newTask()], "report");
      await noting("retry").retry(a);
      await noting("limit").limits.set({ kind: "name", name: "n", group: "" }, null);
      assert.deepEqual(await kept(), [
        ["limit", 1],
        ["retry", 1],
        ["enqueue", 1],
        ["cancel", 3],
      ]);

      await sql("alter table dbq_audit rename to dbq_audit_away");
      const tasks = await store.list({}, 10, undefined);
      const broken: (() => Promise<unknown>)[] = [
        () => noting("enqueue").insert([newTask()], "report"),
        () => noting("cancel").cancel(a, errorText),
        () => noting("retry").retry(b),
        () => noting("edit").look.edit(a, { priority: 9 }, undefined),
        () => noting("retry").look.retryEach([b, c]),
        () => noting("cancel").look.cancelEach([a], errorText),
        () => noting("delete").look.deleteEach([a, b, c]),
        () => noting("pause").limits.pause({ kind: "queue", name: "default", group: "" }),
        () =>
          noting("limit").limits.set({ kind: "name", name: "n", group: "" }, { concurrency: 1, rate: null }),
      ];
      for (const act of broken) await assert.rejects(act);
      assert.deepEqual(await store.list({}, 10, undefined), tasks);
      assert.deepEqual(await store.limits.records(), []);
      await sql("alter table dbq_audit_away rename to dbq_audit");
      assert.equal((await kept()).length, 4);
    },
  },
  {
    name: "an action also keeps what it says of another task, in the same transaction",
    run: async ({ store }) => {
      const noting = store.noting({
        ...{ actor: "eva", action: "enqueue", target: "task 7", reason: "again" },
        countOf: (answer) => (answer as unknown[]).length,
        alsoOf: (answer) => ({
          action: "copy of task 7",
          target: `task ${(answer as { id: number }[])[0]?.id}`,
        }),
      });
      const [made] = await noting.insert([newTask()], "report");
      const kept = async (target: string) =>
        (await store.look.audits(target, 10)).map(({ action, reason, count }) => [action, reason, count]);
      assert.deepEqual(await kept("task 7"), [["enqueue", "again", 1]]);
      assert.deepEqual(await kept(`task ${made?.id}`), [["copy of task 7", "again", 1]]);
    },
  },
  {
    name: "actions are kept with their reasons, and read by their target, newest first",
    run: async ({ store }) => {
      const retried = { actor: "eva", action: "retry", target: "task 7", count: 1 };
      const cancelled = { actor: null, action: "cancel", target: "status=failed", count: 12 };
      await store.look.audit({ ...retried, reason: "the provider is back 🌊" });
      await store.look.audit({ ...cancelled, reason: null });
      const named = (await store.look.audits(undefined, 10)).map(({ at, ...rest }) => {
        assert.ok(Math.abs(at - Date.now()) < minute);
        return rest;
      });
      assert.deepEqual(named, [
        { ...cancelled, reason: null },
        { ...retried, reason: "the provider is back 🌊" },
      ]);
      assert.equal((await store.look.audits("task 7", 10)).length, 1);
    },
  },
  {
    name: "old actions are deleted, the oldest first, and younger ones stay",
    run: async ({ store }) => {
      for (const target of ["task 1", "task 2", "task 3"])
        await store.look.audit({ actor: null, action: "retry", target, count: 1, reason: null });
      const left = async () => (await store.look.audits(undefined, 10)).map(({ target }) => target);
      assert.equal(await store.look.pruneAudits(minute, 10), 0);
      assert.deepEqual(await left(), ["task 3", "task 2", "task 1"]);
      // A minute from now they are all old.
      assert.equal(await store.look.pruneAudits(-minute, 2), 2);
      assert.deepEqual(await left(), ["task 3"]);
      assert.equal(await store.look.pruneAudits(-minute, 10), 1);
    },
  },
];

const readers: Case[] = [
  {
    name: "a reader sees what is committed, and leaves the store open when it closes",
    run: async ({ store }) => {
      const task = await added(store);
      const reader = await store.reader();
      assert.deepEqual(await reader.get([task.id]), [task]);
      const later = await added(store);
      assert.deepEqual(await reader.get([later.id]), [later]);
      await reader.close();
      assert.deepEqual(await recordOf(store, task.id), task);
    },
  },
  {
    name: "a reader refuses to write",
    needs: ["readers that refuse to write"],
    run: async ({ store }) => {
      const task = await added(store);
      const reader = await store.reader();
      // A server that refuses writes may be one that another takes over from: it is asked again until the reader closes.
      const refused = assert.rejects(reader.cancel(task.id, errorText));
      await sleep(100);
      await reader.close();
      await refused;
      assert.deepEqual(await recordOf(store, task.id), task);
    },
  },
];

export const lookGroup: Group = {
  name: "find, edit and act on many",
  cases: [...finds, ...edits, ...bulk, ...readers],
};
