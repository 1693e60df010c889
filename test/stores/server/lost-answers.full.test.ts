/** The answer to a COMMIT is lost: a call that would add tasks again is not repeated, and the others answer as if it had come. */
import { describe, expect, it, onTestFinished } from "vitest";
import { failureKind } from "../../../src/base/values/failure-kind.ts";
import { addAgent, listAgents } from "../../../src/features/manager/tokens.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { OutcomeUnknownError, type Queue, type QueueOptions, remoteTask, task } from "../../../src/index.ts";
import { newTask } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { wireTo } from "./cut-wire.ts";

const kinds = [
  ["Postgres", { server: await postgresServer(), create: newSchema }],
  ["MariaDB", { server: await mysqlServer(), create: newDatabase }],
] as const;

const send = task("send", async (to: string) => to);
const thank = task("thank", async (to: string) => to);

/** Each adds this many tasks. */
const enqueues: [string, number, (queue: Queue) => Promise<unknown>][] = [
  [
    "enqueueGroup",
    3,
    (queue) =>
      queue.enqueueGroup([
        [send, "a"],
        [send, "b"],
      ]),
  ],
  ["enqueueChain", 2, (queue) => queue.enqueueChain([[send, "a"], [thank]])],
  ["triggerSchedule", 1, (queue) => queue.triggerSchedule("daily")],
  [
    "backfillSchedule",
    2,
    (queue) => queue.backfillSchedule("daily", new Date("2026-01-01"), new Date("2026-01-02")),
  ],
];

describe.each(kinds)("over a wire to %s", (_, { server, create }) => {
  async function overWire(options: QueueOptions = {}) {
    const { url, drop } = await create();
    onTestFinished(drop);
    const wire = await wireTo(url);
    const queue = await temporaryQueue({ ...options, poolSize: 1 }, wire.url);
    await queue.schedule("daily", { cron: "@daily" }, send, "Ada");
    return { wire, queue };
  }

  it.skipIf(isMissing(server)).each(enqueues)(
    "%s says that it does not know, and what it enqueues exists once: %d",
    async (__, added, enqueue) => {
      const { wire, queue } = await overWire();
      wire.loseAnswerTo("commit");
      await expect(enqueue(queue)).rejects.toThrow(OutcomeUnknownError);
      expect(await queue.listTasks()).toHaveLength(added);
    },
  );

  it.skipIf(isMissing(server))("enqueueGroup with a requestTimeout is not repeated either", async () => {
    const { wire, queue } = await overWire({ requestTimeout: "20s" });
    wire.loseAnswerTo("commit");
    await expect(queue.enqueueGroup([[send, "a"]])).rejects.toThrow(OutcomeUnknownError);
    expect(await queue.listTasks({ func: "send" })).toHaveLength(1);
  });

  it.skipIf(isMissing(server))("what a task adds to its group exists once", async () => {
    const { wire, queue } = await overWire();
    const { id } = await queue.enqueueGroup([[remoteTask("member")]]);
    wire.loseAnswerTo("commit");
    // A worker would send commits of its own.
    const adding = internalsOf(queue).store.workflows.addToGroup(id, [newTask({ func: "send" })]);
    await expect(adding).rejects.toThrow(OutcomeUnknownError);
    expect(await queue.listTasks({ func: "send" })).toHaveLength(1);
  });

  it.skipIf(isMissing(server))("an agent is added once, and its token is told", async () => {
    const { wire, queue } = await overWire();
    wire.loseAnswerTo("commit");
    const { token } = await addAgent(queue, "mailer", { funcs: "send" });
    expect(token).toMatch(/^dbq_/);
    expect(await listAgents(queue)).toMatchObject([{ name: "mailer", valid: true }]);
  });

  it.skipIf(isMissing(server))("failures are counted once", async () => {
    const { wire, queue } = await overWire();
    const { failures } = internalsOf(queue).store;
    const kind = failureKind("send", "Error", "no luck");
    const minute = Math.floor(Date.now() / 60_000) * 60_000;
    const counted = { ...kind, minute, count: 3, firstAt: minute, lastAt: minute, sample: 1 };
    wire.loseAnswerTo("commit");
    await expect(failures.add([counted])).rejects.toThrow(OutcomeUnknownError);
    expect(await failures.counted(0, undefined, 10)).toEqual([{ id: kind.id, count: 3 }]);
  });

  it.skipIf(isMissing(server))("emitEvent says that its own event is the first", async () => {
    const { wire, queue } = await overWire();
    wire.loseAnswerTo("commit");
    expect(await queue.emitEvent("paid", { amount: 20 })).toBe(true);
    expect(await queue.emitEvent("paid", { amount: 20 })).toBe(false);
  });

  it.skipIf(isMissing(server))(
    "removeSchedule does not reject because it has removed the schedule",
    async () => {
      const { wire, queue } = await overWire();
      wire.loseAnswerTo("delete from");
      await queue.removeSchedule("daily");
      expect(await queue.listSchedules()).toEqual([]);
    },
  );
});
