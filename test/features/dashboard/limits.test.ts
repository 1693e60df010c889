/** What the pages and the command line say of limits: of a function with groups, of shared names, and in which order. */
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { openQueue, type Queue, remoteTask } from "../../../src/index.ts";
import { dbq } from "../../entries/cli/dbq.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { textOf } from "./page-text.ts";
import { openDesk } from "./requests.ts";

const perTenant = remoteTask("per-tenant");

async function queueIn(folder: string): Promise<Queue> {
  const queue = await openQueue(join(folder, "dbq.db"));
  onTestFinished(() => queue.close());
  return queue;
}

const limitsOf = async (queue: Queue) => {
  const { get } = await openDesk({}, queue);
  return textOf(await (await get("/queues")).text(), "limits");
};

test("the limit of a function is one of each group as long as a task of it has a group", async () => {
  const queue = await queueIn(temporaryFolder());
  await queue.setLimit({ func: "per-tenant" }, { concurrency: 1, rate: { limit: 5, per: "1m" } });
  await queue.enqueueTask(perTenant);
  expect(await queue.listLimits()).toMatchObject([{ hasGroups: false, waiting: 1 }]);
  expect(await limitsOf(queue)).toContain("per-tenant function 0 of 1");
  const id = await queue.enqueueTask(perTenant.with({ group: "acme", queueName: "mail" }));
  expect(await queue.listLimits()).toMatchObject([{ hasGroups: true, waiting: 2 }]);
  const text = await limitsOf(queue);
  expect(text).toMatch(/per-tenant function ?0 ?1 for each group ?2 ?0 ?5 per minute ?for each group/);
  expect(text).not.toContain("of 1");
  await queue.cancelTask(id);
  expect(await queue.listLimits()).toMatchObject([{ hasGroups: false }]);
});

test("dbq limits says so too, and counts no waiting tasks for a shared name", async () => {
  const folder = temporaryFolder();
  const queue = await queueIn(folder);
  await queue.setLimit({ func: "per-tenant" }, { concurrency: 1 });
  await queue.setLimit("openai", { concurrency: 2 });
  await queue.enqueueTask(perTenant.with({ group: "acme" }));
  const { out } = await dbq(folder, ["limits"]);
  expect(out).toMatch(/^function per-tenant +1 each group +0 +1 +0 *$/m);
  expect(out).toMatch(/^name openai +2 +0 +0 *$/m);
  expect(await limitsOf(queue)).toMatch(/openai shared name 0 of 2 ?–/);
});

test("the page of a task names its group, and the limit that each group of its function has", async () => {
  const queue = await queueIn(temporaryFolder());
  const { get } = await openDesk({}, queue);
  const id = await queue.enqueueTask(perTenant.with({ group: "acme" }));
  await queue.setLimit({ func: "per-tenant" }, { concurrency: 1, rate: { limit: 5, per: "1m" } });
  const page = async (of: number) => await (await get(`/tasks/${of}`)).text();
  expect(textOf(await page(id), "timeline")).toContain(
    "Each group of its function per-tenant has a limit: 1 at once (0 running), 5 per minute.",
  );
  expect(textOf(await page(id), "facts")).toContain("Groupacme");
  expect(await (await get("/tasks")).text()).toContain("group acme");
  await queue.setLimit({ func: "per-tenant", group: "acme" }, { concurrency: 7 });
  const own = textOf(await page(id), "timeline");
  expect(own).toContain("Its group acme has a limit: 7 at once (0 running).");
  expect(own).toContain("Each group of its function per-tenant has a limit: 5 per minute.");
  const alone = await queue.enqueueTask(perTenant);
  expect(textOf(await page(alone), "timeline")).toContain("Its function per-tenant has a limit: 1 at once");
  expect(textOf(await page(alone), "facts")).not.toContain("Group");
});

test("limits that hold tasks back come first, and names are in the order in which people count", async () => {
  const queue = await queueIn(temporaryFolder());
  for (const n of [10, 2, 1, 3]) await queue.setLimit(`provider-${n}`, { concurrency: n });
  await queue.pause({ queueName: "reports" });
  const { api } = await openDesk({}, queue);
  const { limits } = (await api("/api/queues")).body as { limits: { target: unknown }[] };
  expect(limits.map(({ target }) => target)).toEqual([
    { queueName: "reports" },
    ...["provider-1", "provider-2", "provider-3", "provider-10"],
  ]);
});

test("the page of a pending task says that no worker serves its queue", async () => {
  const folder = temporaryFolder();
  const queue = await queueIn(folder);
  const id = await queue.enqueueTask(perTenant);
  const database = new Database(join(folder, "dbq.db"));
  database
    .prepare("update dbq_tasks set created_at = created_at - 60000, updated_at = updated_at - 60000")
    .run();
  database.close();
  const { get } = await openDesk({}, queue);
  const timeline = textOf(await (await get(`/tasks/${id}`)).text(), "timeline");
  expect(timeline).toMatch(/waits for a worker: no live worker serves its queue$/);
});
