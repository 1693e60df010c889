/** "What is wrong" of the overview: one line for each cause. */
import { expect, test } from "vitest";
import type { WorkerHealth } from "../../../src/base/tasks/worker-health.ts";
import type { Cause } from "../../../src/features/causes/methods.ts";
import { Access } from "../../../src/features/dashboard/access.ts";
import { Stuck } from "../../../src/features/dashboard/pages/stuck.tsx";
import type { Health, HealthOfQueue } from "../../../src/features/inspect/methods.ts";

const queueOf = (name: string, values: Partial<HealthOfQueue> = {}): HealthOfQueue => ({
  ...{ name, pending: 0, scheduled: 0, running: 0, waiting: 0, failed: 0, atLeast: [], workers: 1 },
  ...{ oldestPendingAge: null, pausedAt: null, putOff: 0, putOffSince: null, limits: [] },
  ...values,
});

const access = Access.of("read") as Access;

/** The lines that a person reads. */
function linesOf(health: Partial<Health>, causes: readonly Cause[] = []): string[] {
  const all: Health = {
    ...{ queues: [], workers: [], deadWorkers: [], unservedFunctions: [], pauses: [] },
    ...health,
  };
  const html = String(Stuck({ health: all, causes, isNew: false, context: { base: "", access } }));
  return [...html.matchAll(/<li[^>]*>(.*?)<\/li>/gs)].map(([, line = ""]) => line.replaceAll(/<[^>]+>/g, ""));
}

const unserved = (
  func: string,
  queueName: string,
  tasks: number,
  reason = "no live worker serves its queue",
) => ({
  ...{ func, queueName, tasks, reason, advice: `start one: \`dbq worker --queue ${queueName}\`` },
  pendingFor: 101_000,
});

test("the functions of a queue that no worker serves share a line, and the queue is not listed as slow too", () => {
  const lines = linesOf({
    queues: [queueOf("batch", { pending: 90, workers: 0, oldestPendingAge: 101_000 })],
    unservedFunctions: [unserved("a", "batch", 45), unserved("b", "batch", 45)],
  });
  expect(lines).toEqual([
    "Queue batch: 90 tasks of 2 functions not taken for 1 min 41 s, since no live worker serves its queue. Start one: dbq worker --queue batch.",
  ]);
});

test("a cause has a line with the command that repairs it, and functions that nobody serves have one of the health", () => {
  const of = (kind: Cause["kind"], why: string, command: string | null): Cause => ({
    ...{ key: kind, kind, severity: "warning", since: new Date(), why },
    fix: { command, action: null, advice: command === null ? "ask `somebody`" : null },
  });
  const a = { func: "a", queueName: "q" };
  const causes = [
    of("hung", "task 7 (send) has run for 2 h: its timeout is 1 h", "dbq cancel 7"),
    of("database", "WAL size: it is not being checkpointed", "dbq doctor"),
    of("paused", "the queue mail is paused", "dbq resume --queue mail"),
    { ...of("unserved", "2 tasks of a wait", null), ...a },
  ];
  const others = [
    "Task 7 (send) has run for 2 h: its timeout is 1 h. dbq cancel 7",
    "WAL size: it is not being checkpointed. dbq doctor",
    "The queue mail is paused. dbq resume --queue mail",
  ];
  const ofHealth =
    "a in q: 2 tasks not taken for 1 min 41 s, since nobody registers it. Start one: dbq worker --queue q.";
  const lines = linesOf({ unservedFunctions: [unserved("a", "q", 2, "nobody registers it")] }, causes);
  expect(new Set(lines)).toEqual(new Set([...others, ofHealth]));
  // The pages of one function and one queue have the causes alone.
  expect(linesOf({}, causes)).toEqual([...others, "2 tasks of a wait. Ask somebody."]);
});

test("the cause that holds most tasks back comes first", () => {
  const pausedAt = new Date();
  const lines = linesOf({
    queues: [
      queueOf("batch", { pending: 45, workers: 0 }),
      queueOf("mail", { pending: 540, pausedAt, oldestPendingAge: 900_000 }),
      queueOf("slow", { pending: 100, oldestPendingAge: 120_000 }),
    ],
    unservedFunctions: [unserved("a", "batch", 45), unserved("c", "other", 7, "nobody registers it")],
    pauses: [{ target: { func: "send" }, pausedAt }],
  });
  expect(lines.map((line) => line.split(/[:,] | was /)[0])).toEqual([
    "Queue mail",
    "Queue slow",
    "Queue batch",
    "c in other",
    "Function send",
  ]);
  expect(lines[1]).toBe("Queue slow: 100 tasks pending, the oldest for 2 min 0 s.");
  expect(lines[2]).toBe(
    "Queue batch: 45 tasks of a not taken for 1 min 41 s, since no live worker serves its queue. Start one: dbq worker --queue batch.",
  );
  expect(lines[3]).toBe(
    "c in other: 7 tasks not taken for 1 min 41 s, since nobody registers it. Start one: dbq worker --queue other.",
  );
});

test("two workers that are not alive have a line each, and more share one", () => {
  const dead = (host: string): WorkerHealth =>
    ({ host, pid: 7, liveness: "dead", reason: "process-ended" }) as WorkerHealth;
  expect(linesOf({ deadWorkers: [dead("web-1"), dead("web-2")] })).toHaveLength(2);
  expect(linesOf({ deadWorkers: ["web-1", "web-2", "web-3"].map(dead) })).toEqual([
    "3 workers are silent or dead: web-1, process 7; web-2, process 7; and 1 more.",
  ]);
});

test("a cause has its repair as a button, and a person who may only look sees none", () => {
  const of = (
    kind: Cause["kind"],
    fix: Pick<Cause["fix"], "command" | "action">,
    more: Partial<Cause> = {},
  ): Cause => ({
    ...{ key: kind, kind, severity: "warning", since: new Date(), why: `it is ${kind}` },
    fix: { ...fix, advice: null },
    ...more,
  });
  const edits = { on: "schedules", action: "edit", fields: { name: "s", overlap: "skip" } } as const;
  const cancels = {
    on: "tasks",
    action: "bulk",
    fields: { action: "cancel", "filter.schedule": "s" },
  } as const;
  const causes = [
    of("hung", { command: null, action: { on: "tasks", action: "cancel", fields: { id: "7" } } }),
    of(
      "paused",
      { command: null, action: { on: "queues", action: "resume", fields: { name: ".." } } },
      { queueName: "..", tasks: 700, oldestAge: 3_600_000 },
    ),
    of("failing", {
      command: null,
      action: { on: "functions", action: "pause", fields: { name: "send", group: "acme" } },
    }),
    of("limited", {
      command: null,
      action: {
        on: "limits",
        action: "limit",
        fields: { about: "queue", name: "mail", concurrency: "8", rate: "20/1m" },
      },
    }),
    of(
      "piling",
      { command: "dbq schedule edit s", action: edits },
      { otherFix: { command: "dbq cancel --schedule s", action: cancels, advice: null } },
    ),
  ];
  const shown = (allowed: "all" | "read") =>
    String(
      Stuck({
        ...{ health: { queues: [], workers: [], deadWorkers: [], unservedFunctions: [], pauses: [] } },
        ...{ causes, isNew: false, context: { base: "/ops", access: Access.of(allowed) as Access } },
      }),
    );
  const html = shown("all");
  const addresses = [...html.matchAll(/<form method="post" action="([^"]+)"/g)].map(([, to]) => to);
  expect(new Set(addresses)).toEqual(
    new Set([
      "/ops/api/tasks/7/cancel",
      "/ops/api/queues/resume?name=..",
      "/ops/api/functions/pause?name=send&amp;group=acme",
      "/ops/api/limits",
      "/ops/api/schedules/edit?name=s",
      "/ops/tasks/bulk",
    ]),
  );
  expect(html).toMatch(/data-does="Cancel the task" data-keeps="Keep it"/);
  expect(html).toMatch(/data-asks="Resume the queue \.\.\? 700 tasks have waited behind the pause/);
  expect(html).toMatch(/name="filter.schedule" value="s".*name="scope" value="filter"/s);
  expect(html).toContain('<code class="command">dbq cancel --schedule s</code>');
  expect(html).toMatch(/name="concurrency"[^>]* value="8"/);
  expect(html).toMatch(/name="rate" value="20\/1m"/);
  expect(shown("read")).not.toMatch(/<form|<button|class="button"/);
});
