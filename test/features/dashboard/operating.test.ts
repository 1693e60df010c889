/** What people do on pages beside single actions: schedules, reasons, many tasks at once, copies, and workers that died. */
import { describe, expect, test } from "vitest";
import type { DashboardOptions } from "../../../src/features/dashboard/index.ts";
import { differences } from "../../../src/features/dashboard/json-text.ts";
import { remoteTask } from "../../../src/index.ts";
import { openDesk } from "./requests.ts";

const send = remoteTask("send");
const asEva: DashboardOptions = { authorize: () => ({ allow: "all", actor: "eva" }) };

describe("schedules", () => {
  const nightly = {
    name: "nightly",
    func: "report",
    args: '["all"]',
    cron: "30 2 * * *",
    timeZone: "Europe/Berlin",
  };

  test("one is made by a form, whose empty fields are left out, and the page shows its next five times", async () => {
    const { queue, post, get } = await openDesk(asEva);
    const empty = {
      queueName: "",
      every: "",
      startAt: "",
      endAt: "",
      missed: "",
      jitter: "",
      overlap: "skip",
    };
    const answer = await (await post("/api/schedules/make", { ...nightly, ...empty })).text();
    expect(answer).toContain(
      "Schedule nightly is made: it makes a task of report every day at 02:30 (Europe/Berlin)",
    );
    expect(answer).toContain("No task has a function of this name");
    expect(await queue.getSchedule("nightly")).toMatchObject({
      ...{ func: "report", args: ["all"], cron: "30 2 * * *", timeZone: "Europe/Berlin" },
      ...{ missed: "one", overlap: "skip", jitter: null, startAt: null },
    });
    const page = await (await get("/schedules")).text();
    expect(page.match(/02:30 <small>/g)).toHaveLength(5);
    expect(page).toContain('href="/schedules/edit?name=nightly"');
  });

  test("a schedule of this name is not made anew, and a form without a timing is refused", async () => {
    const { queue, api } = await openDesk();
    expect((await api("/api/schedules/make", nightly)).status).toBe(200);
    expect(await api("/api/schedules/make", { ...nightly, cron: "0 0 * * *" })).toEqual({
      status: 400,
      body: { ok: false, message: 'name: there is a schedule "nightly": edit it' },
    });
    expect((await queue.getSchedule("nightly"))?.cron).toBe("30 2 * * *");
    const { cron: _, ...timeless } = { ...nightly, name: "other", timeZone: "" };
    expect((await api("/api/schedules/make", timeless)).body).toMatchObject({
      ok: false,
      message: expect.stringContaining("expected one of cron and every, got neither"),
    });
    for (const [fields, message] of [
      [{ missed: "all" }, "missed: expected one, skip, or a number from 1 to 1000"],
      [{ overlap: "queue" }, 'overlap: expected skip or allow, got "queue"'],
      [{ startAt: "soon" }, "startAt: expected a time"],
      [{ func: "" }, "func: expected the name of a function"],
      [{ cron: "99" }, "cron: expected 5 fields"],
    ] as const)
      expect((await api("/api/schedules/make", { ...nightly, name: "other", ...fields })).body).toMatchObject(
        {
          ok: false,
          message: expect.stringContaining(message),
        },
      );
  });

  test("a change takes the fields of its form: an empty one is none or the default, and the tasks stay as they are", async () => {
    const { queue, api, post } = await openDesk();
    await api("/api/schedules/make", { ...nightly, jitter: "30s", missed: "7", endAt: "2099-01-01" });
    const form = {
      name: "nightly",
      cron: "",
      every: "5m",
      timeZone: "UTC",
      startAt: "",
      endAt: "",
      missed: "",
      jitter: "",
    };
    const answer = await (await post("/api/schedules/edit", { ...form, overlap: "allow" })).text();
    expect(answer).toContain(
      "Schedule nightly is changed: it makes a task of report every 5 minutes, the next one at",
    );
    expect(await queue.getSchedule("nightly")).toMatchObject({
      ...{ func: "report", args: ["all"], cron: null, every: 300_000, timeZone: "UTC" },
      ...{ missed: "one", jitter: null, endAt: null, overlap: "allow" },
    });
    expect(
      (await api("/api/schedules/edit", { name: "nightly", cron: null, every: null })).body,
    ).toMatchObject({
      message: "cron: expected one of cron and every, got neither",
    });
    expect((await api("/api/schedules/remove", { name: "nightly" })).body).toMatchObject({ ok: true });
    expect(await queue.getSchedule("nightly")).toBeUndefined();
  });

  test("the form shows the next five times of what is filled in before anything is written, and why there are none", async () => {
    const { queue, get, api } = await openDesk();
    const page = await (await get("/schedules/edit?name=new&func=f&cron=0+12+*+*+1&every=&timeZone=")).text();
    expect(page.match(/Mon [^<]*12:00 <small>/g)).toHaveLength(5);
    expect(page).toContain('value="0 12 * * 1"');
    expect(await (await get("/schedules/edit?name=new&cron=1")).text()).toContain("cron: expected 5 fields");
    expect(await queue.listSchedules()).toEqual([]);
    await api("/api/schedules/make", { ...nightly, endAt: "2099-01-01" });
    const { body } = await api("/api/schedules/edit?name=nightly");
    expect(body).toMatchObject({
      times: { length: 5 },
      values: { cron: "30 2 * * *", endAt: "2099-01-01T00:00:00.000Z" },
    });
  });

  test("the waiting tasks of one that piles up are cancelled by the button of its cause, and no others", async () => {
    const { queue, get, post } = await openDesk(asEva);
    for (const name of ["stock report", "other"]) {
      await queue.schedule(name, { every: "1h", overlap: "allow" }, send);
      for (let n = 0; n < 3; n += 1) await queue.triggerSchedule(name);
    }
    const cause = (await queue.listCauses()).find(({ schedule }) => schedule === "stock report");
    const { action } = cause?.otherFix ?? {};
    expect(action).toMatchObject({ on: "tasks", action: "bulk" });
    expect(await (await get("/")).text()).toContain('name="filter.schedule" value="stock report"');
    const fields = { ...action?.fields, scope: "filter" };
    const asks = await (await post("/tasks/bulk", fields)).text();
    expect(asks).toContain("This will cancel 3 tasks.");
    expect(asks).toContain("They are the tasks of the schedule stock report that are pending or scheduled.");
    await post("/tasks/bulk", { ...fields, confirmed: "yes" });
    const left = async (scheduleName: string) => (await queue.countTasks({ scheduleName })).pending;
    expect([await left("stock report"), await left("other")]).toEqual([0, 3]);
  });

  test("a person who may not change schedules gets no form, and no action", async () => {
    const { get, api } = await openDesk({ authorize: () => "read" });
    expect(await (await get("/schedules")).text()).not.toContain("<form");
    expect(await (await get("/schedules/edit")).text()).not.toContain("<form");
    expect((await api("/api/schedules/make", nightly)).status).toBe(403);
  });
});

test("each action keeps the reason that the person gave, and the pages show it", async () => {
  const { queue, api, get } = await openDesk(asEva);
  const id = await queue.enqueueTask(send, 1);
  await api("/api/queues/mail/pause", { reason: "the provider is down" });
  await api("/api/schedules/make", { name: "s", func: "send", every: "1h", reason: "asked for" });
  await api(`/api/tasks/${id}/cancel`, { reason: "a double" });
  await api(`/api/tasks/${id}/retry`, { reason: "none after all" });
  await api("/api/tasks/bulk", { action: "delete", ids: [id], preview: false, reason: "  " });
  const { entries } = (await api("/api/audit")).body as { entries: { action: string; reason: string }[] };
  expect(entries.map(({ action, reason }) => [action, reason])).toEqual([
    ["delete", null],
    ["retry", "none after all"],
    ["cancel", "a double"],
    ["make", "asked for"],
    ["pause", "the provider is down"],
  ]);
  expect(await (await get("/audit")).text()).toContain("the provider is down");
});

describe("many tasks are changed", () => {
  test("their queue, priority and time; those that have started or ended stay, and the audit says what became of them", async () => {
    const { queue, api } = await openDesk(asEva);
    const ids = [await queue.enqueueTask(send, 1), await queue.enqueueTask(send.with({ delay: "1h" }), 2)];
    const ended = await queue.enqueueTask(send, 3);
    await queue.cancelTask(ended);
    const edit = (fields: object) =>
      api("/api/tasks/bulk", { action: "edit", filter: { func: "send" }, ...fields });
    expect((await edit({ preview: true })).body).toMatchObject({ count: 2 });
    expect(
      (await edit({ preview: false, queueName: "slow", priority: "9", waitUntil: "now" })).body,
    ).toMatchObject({
      ...{ ok: true, changed: 2, message: "2 tasks are changed." },
    });
    for (const id of ids)
      expect(await queue.getTask(id)).toMatchObject({
        ...{ queueName: "slow", priority: 9, status: "pending", waitUntil: null },
      });
    expect(await queue.getTask(ended)).toMatchObject({ queueName: "default", status: "cancelled" });
    expect((await edit({ preview: false, waitUntil: "2099-01-01" })).body).toMatchObject({ changed: 2 });
    expect(await queue.getTask(ids[0] as never)).toMatchObject({ status: "scheduled", queueName: "slow" });
    const { entries } = (await api("/api/audit")).body as { entries: { target: string }[] };
    expect(entries[1]?.target).toMatch(/ func=send .*: queue=slow priority=9 time=now$/);
  });

  test.each([
    [{ preview: false }, "nothing to change"],
    [{ preview: false, queueName: "", priority: "" }, "nothing to change"],
    [{ preview: false, priority: "high" }, "priority: expected a whole number"],
    [{ preview: false, priority: 99_999_999_999 }, "priority: expected"],
    [{ action: "cancel", preview: false, priority: 1 }, 'there is no field "priority" here'],
  ])("%o is refused, and changes nothing", async (fields, message) => {
    const { queue, api } = await openDesk();
    const id = await queue.enqueueTask(send, 1);
    const given: Record<string, unknown> = { ...fields };
    if (given.queueName === "") Object.assign(given, { queueName: null, priority: null });
    const { status, body } = await api("/api/tasks/bulk", { action: "edit", ids: [id], ...given });
    expect([status, body.message]).toEqual([400, expect.stringContaining(message)]);
    expect(await queue.getTask(id)).toMatchObject({ generationId: 1, status: "pending" });
  });

  test("the page that asks has a field for each, and needs the permission to edit", async () => {
    const { queue, post } = await openDesk();
    const id = await queue.enqueueTask(send, 1);
    const asks = await (await post("/tasks/bulk", { action: "edit", scope: "ids", id: String(id) })).text();
    for (const name of ["queueName", "priority", "waitUntil", "reason"])
      expect(asks).toContain(`name="${name}"`);
    expect(asks).toContain("This will change 1 task.");
    const { api } = await openDesk({ authorize: () => ["retry"] }, queue);
    expect((await api("/api/tasks/bulk", { action: "edit", ids: [id], preview: false })).status).toBe(403);
  });
});

describe("a copy", () => {
  test("with other arguments shows what differs from the task that it was copied from", async () => {
    const { queue, api, get } = await openDesk(asEva);
    const id = await queue.enqueueTask(send.with({ meta: { tenant: 1 } }), { to: "a", size: 1 }, [1, 2]);
    const { message } = (await api(`/api/tasks/${id}/enqueue`, { args: '[{"to":"b","size":1},[1],true]' }))
      .body;
    const copy = Number(/^Task (\d+) is enqueued, with other arguments/.exec(String(message))?.[1]);
    expect(await queue.getTask(copy)).toMatchObject({
      args: [{ to: "b", size: 1 }, [1], true],
      meta: { tenant: 1 },
    });
    expect((await api(`/api/tasks/${copy}`)).body.copied).toEqual({
      from: id,
      differences: [
        { path: ".args[0].to", before: '"a"', after: '"b"' },
        { path: ".args[1][1]", before: "2", after: null },
        { path: ".args[2]", before: null, after: "true" },
      ],
    });
    const page = await (await get(`/tasks/${copy}`)).text();
    expect(page).toContain("<code>args[0].to</code>");
    await queue.cancelTask(id);
    await queue.deleteTasks({ status: "cancelled" });
    expect((await api(`/api/tasks/${copy}`)).body.copied).toEqual({ from: id, differences: null });
  });

  test("an ordinary task is none, and what `redact` hides of either task is not shown by the difference", async () => {
    const redact = <T extends { args: unknown[] }>(task: T): T => ({ ...task, args: ["hidden"] });
    const { queue, api } = await openDesk({ authorize: () => "all", redact });
    const id = await queue.enqueueTask(send, "secret-1");
    expect((await api(`/api/tasks/${id}`)).body.copied).toBeNull();
    await api(`/api/tasks/${id}/enqueue`, { args: '["secret-2"]' });
    const { body } = await api(`/api/tasks/${id + 1}`);
    expect(body.copied).toEqual({ from: id, differences: [] });
    expect(JSON.stringify(body)).not.toContain("secret");
  });

  test("numbers beyond 2^53 differ by their digits, and the order of keys is no difference", () => {
    const [a, b] = ["9007199254740993", "9007199254740992"];
    expect(differences(`[${a}]`, `[${b}]`, 9)).toEqual([{ path: "[0]", before: a, after: b }]);
    expect(differences('{"a":1,"b c":[]}', '{"b c":[], "a":1}', 9)).toEqual([]);
    expect(differences('{"b c":[]}', '{"b c":[{}]}', 9)).toEqual([
      { path: '["b c"]', before: "[]", after: null },
      { path: '["b c"][0]', before: null, after: "{}" },
    ]);
    expect(differences("[1", "[1]", 9)).toBeUndefined();
    expect(differences("[1,2,3]", "[4,5,6]", 2)).toHaveLength(2);
  });
});

test("a worker that died while it ran tasks stays for a day with what it held", async () => {
  const { queue, api, get } = await openDesk();
  const ids = [await queue.enqueueTask(send, 1), await queue.enqueueTask(send, 2)];
  await queue.transaction((tx) => {
    const run = (text: string) => (tx as never as { run(sql: string): void }).run(text);
    for (const [id, worker, age, outcome] of [
      [ids[0], "host:7:aa", 3_600_000, "crashed"],
      [ids[1], "host:7:aa", 3_600_000, "crashed"],
      [ids[1], "host:8:bb", 90_000_000, "crashed"],
      [ids[1], "host:9:cc", 1_000, "failed"],
    ])
      run(`insert into dbq_attempts (task_id, generation_id, worker_id, started_at, ended_at, outcome)
        values (${id}, 2, '${worker}', 0, ${Date.now() - Number(age)}, '${outcome}')`);
  });
  expect((await api("/api/workers")).body.died).toEqual([
    {
      id: "host:7:aa",
      diedAt: expect.any(String),
      held: [...ids].reverse().map((taskId) => ({ taskId, func: "send" })),
    },
  ]);
  const page = await (await get("/workers")).text();
  expect(page).toContain("Died in the last 24 hours");
  expect(page).toContain(`href="/tasks/${ids[0]}"`);
});

test("to resume many tasks offers the form of the limit, for a person who may set one", async () => {
  const { queue, get } = await openDesk();
  await queue.enqueueTasks(
    Array.from({ length: 120 }, (_, i) => [send.with({ queueName: "mail" }), i] as const),
  );
  await queue.pause({ queueName: "mail" });
  const offers = 'data-instead="Set its limit first…" data-instead-to="/queues/detail?name=mail#set-limit"';
  expect(await (await get("/queues")).text()).toContain(offers);
  const { get: resumes } = await openDesk({ authorize: () => ["resume"] }, queue);
  expect(await (await resumes("/queues")).text()).not.toContain("data-instead");
});
