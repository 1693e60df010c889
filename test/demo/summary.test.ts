/** `lost` is counted in the database and on disk: missing and unfinished tasks, and incomplete pages. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Plan } from "../../demo/plan.ts";
import { workFolder } from "../../demo/plan.ts";
import { summarize } from "../../demo/summary.ts";
import { renderPage, writeIndex } from "../../demo/tasks.ts";
import { startedWorker, temporaryFolder, temporaryQueue } from "../support/queue.ts";

/** Three documents whose numbers cause no injected fault. */
function planned(): Plan {
  const folder = temporaryFolder();
  const site = temporaryFolder();
  mkdirSync(workFolder(site));
  const documents = [5, 6, 7].map((number) => ({ number, path: `${number}.md`, page: `${number}.html` }));
  for (const { path } of documents) writeFileSync(join(folder, path), `# ${path}`);
  return { runId: "run", folder, site, database: "dbq.db", documents };
}

test("a task that is missing or unfinished, or whose page is incomplete, counts as lost", async () => {
  const plan = planned();
  const queue = await temporaryQueue();
  const render = renderPage.with({ requestId: plan.runId });
  const index = writeIndex.with({ requestId: plan.runId, priority: 0 });
  const ids = await queue.enqueueTasks([
    ...plan.documents.map((document) => [render, document] as const),
    [index] as const,
  ]);
  const summary = () => summarize({ queue, plan, ids, kill: undefined });
  expect(await summary()).toMatchObject({ tasks: 4, completed: 0, failed: 0, lost: 4 });

  const pages = new Map(plan.documents.map(({ path, page }) => [path, page]));
  await startedWorker(queue, { tasks: [renderPage, writeIndex], context: { queue, plan, pages } });
  await queue.awaitTaskCompletion(ids.at(-1) ?? 0, { timeout: "20s" });
  expect(await summary()).toMatchObject({ tasks: 4, completed: 4, failed: 0, lost: 0, killedWorkers: 0 });

  const [first = "", second = ""] = plan.documents.map(({ page }) => join(plan.site, "pages", page));
  rmSync(first);
  expect(await summary()).toMatchObject({ completed: 4, lost: 1 });
  writeFileSync(second, readFileSync(second, "utf8").slice(0, -10));
  expect(await summary()).toMatchObject({ completed: 4, lost: 2 });
  await queue.purgeTasks({ func: writeIndex.taskName });
  expect(await summary()).toMatchObject({ tasks: 4, completed: 3, lost: 3 });
});

test("a document that cannot be read fails without a retry, and the index does not wait for it", async () => {
  const plan = planned();
  rmSync(join(plan.folder, "6.md"));
  const queue = await temporaryQueue();
  const render = renderPage.with({ requestId: plan.runId });
  const pages = plan.documents.map((document) => [render, document] as const);
  const ids = await queue.enqueueTasks([...pages, [writeIndex.with({ requestId: plan.runId })] as const]);
  await startedWorker(queue, {
    tasks: [renderPage, writeIndex],
    context: { queue, plan, pages: new Map() },
  });
  await queue.awaitTaskCompletion(ids.at(-1) ?? 0, { timeout: "20s" });
  expect(await summarize({ queue, plan, ids, kill: undefined })).toMatchObject({
    completed: 3,
    failed: 1,
    lost: 0,
    retried: 0,
    killedWorkers: 0,
    recoveryMs: null,
  });
  expect(readFileSync(join(plan.site, "index.html"), "utf8")).toContain("<li>6.md</li>");
});
