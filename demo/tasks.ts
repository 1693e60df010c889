/** The tasks of the demo: plain functions under stable names. */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { currentTask, type Queue, SnoozeTask, task } from "../src/index.ts";
import { readDocument, readLimit } from "./documents.ts";
import { flakyStep, slowStep } from "./faults.ts";
import { Links } from "./links.ts";
import { type Rendered, renderMarkdown, renderText } from "./markdown.ts";
import { type Document, type Plan, tasksOf, workFolder } from "./plan.ts";
import { type Entry, indexOf, pageOf, pagesFolder } from "./site.ts";

/** The context that a worker gives to its tasks. */
export interface Context {
  queue: Queue;
  plan: Plan;
  /** The page of each document, by the document's path. */
  pages: ReadonlyMap<string, string>;
}

/** Makes the page of a document. The index reads the results of these tasks. */
export const renderPage = task(
  "renderPage",
  async (document: Document): Promise<Entry> => {
    const { plan, pages } = currentTask<Context>().context;
    const { path, page } = document;
    await slowStep(document, plan.documents.length);
    flakyStep(document);
    const rendered = render(await readDocument(join(plan.folder, path)), new Links(pages, document));
    await writeWhole(
      plan.site,
      join(pagesFolder, page),
      pageOf({ ...rendered, document, madeBy: signature() }),
    );
    return { path, page, title: rendered.title ?? path, words: rendered.words };
  },
  {
    timeout: "20s",
    backoff: (retryCount) => 100 * 2 ** retryCount,
    // A retry would not find a missing file either, nor be allowed to read it.
    retryOn: (error) => !["ENOENT", "EACCES", "EISDIR"].includes((error as NodeJS.ErrnoException).code ?? ""),
  },
);

/** Makes the index. It is enqueued together with the pages, and snoozes until they have finished. */
export const writeIndex = task("writeIndex", async (): Promise<{ entries: number }> => {
  const { plan, queue } = currentTask<Context>().context;
  const ofPages = { requestId: plan.runId, func: renderPage.taskName };
  const { pending, scheduled, running } = await queue.countTasks(ofPages);
  if (pending + scheduled + running > 0) throw new SnoozeTask("50ms");

  const entries: Entry[] = [];
  const failed: string[] = [];
  for await (const { status, result, args } of tasksOf(queue, ofPages)) {
    if (status === "completed") entries.unshift(result as Entry);
    else failed.unshift((args[0] as Document).path);
  }
  await writeWhole(plan.site, "index.html", indexOf(entries, failed));
  return { entries: entries.length };
});

function render({ text, cut }: { text: string; cut: boolean }, links: Links): Rendered {
  return cut
    ? renderText(
        text,
        `This document is long. Its first ${readLimit / 1_024 / 1_024} MiB are shown as plain text.`,
      )
    : renderMarkdown(text, links);
}

/** Writes a page by a rename: a task may run twice, and a worker may die while it writes, but no page is incomplete. */
async function writeWhole(site: string, path: string, content: string): Promise<void> {
  const { id, generationId } = currentTask();
  const unfinished = join(workFolder(site), `${id}-${generationId}.part`);
  await mkdir(join(site, pagesFolder), { recursive: true });
  await writeFile(unfinished, content);
  await rename(unfinished, join(site, path));
}

function signature(): string {
  const { id, retryCount } = currentTask();
  return `Made by task ${id} in attempt ${retryCount + 1}, in process ${process.pid}`;
}
