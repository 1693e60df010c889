/** The tasks of the demo: plain functions under stable names. */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { currentTask, type Queue, SnoozeTask, task } from "../src/index.ts";
import { readDocument, readLimit } from "./documents.ts";
import { Links } from "./links.ts";
import { type Rendered, renderMarkdown, renderText } from "./markdown.ts";
import { type Document, type Plan, tasksOf, workFolder } from "./plan.ts";
import { type Entry, indexOf, pageOf, pagesFolder } from "./site.ts";
import { flakyStep, slowStep } from "./trouble.ts";

/** What a worker gives to each of its tasks. */
export interface Context {
  queue: Queue;
  plan: Plan;
  /** The page of each document, by the document's path. */
  pages: ReadonlyMap<string, string>;
}

/** One document becomes one page. What it returns is kept in the task, where the index finds it. */
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
    // A file that is gone, or may not be read, is so the next time too.
    retryOn: (error) => !["ENOENT", "EACCES", "EISDIR"].includes((error as NodeJS.ErrnoException).code ?? ""),
  },
);

/** The index, when every page is there. It is enqueued together with them, and comes back later as long as it is too early. */
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
    ? renderText(text, `A long document: here are its first ${readLimit / 1_024 / 1_024} MiB, as text.`)
    : renderMarkdown(text, links);
}

/** At-least-once means that a page may be written twice, and that a worker may die while it writes: a page is whole or not there. */
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
