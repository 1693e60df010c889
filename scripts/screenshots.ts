/**
 * Takes pictures of every page of the dashboard: `npx tsx scripts/screenshots.ts FOLDER [scene]`. Scenes are empty, ordinary,
 * hostile and toomuch; each in both themes, wide and narrow.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { dashboard, toNodeHandler } from "../src/features/dashboard/index.ts";
import { openQueue, type Queue } from "../src/index.ts";
import { hostile, ordinary, tooMuch } from "../test/features/dashboard/scenes.ts";
import { startChromium } from "../test/support/chromium.ts";

const [folder = "screenshots", only] = process.argv.slice(2);

/** Each fills a database, and gives the pages of tasks that are worth a picture. */
const scenes: Record<string, (queue: Queue, file: string) => Promise<Record<string, string>>> = {
  empty: async () => ({ bulk: "/tasks?status=failed", unknown: "/tasks/9" }),
  ordinary: async (queue, file) => {
    const { failed, running, scheduled } = await ordinary(queue, file);
    return {
      failed: `/tasks/${failed}`,
      running: `/tasks/${running}`,
      scheduled: `/tasks/${scheduled}`,
      week: "/?range=7d",
    };
  },
  hostile: async (queue, file) => ({ failed: `/tasks/${await hostile(queue, file)}` }),
  toomuch: async (queue, file) => {
    await tooMuch(queue, file);
    return { filtered: "/tasks?status=failed&q=replicas" };
  },
};

const pages = {
  overview: "/",
  tasks: "/tasks",
  queues: "/queues",
  schedules: "/schedules",
  workers: "/workers",
  functions: "/functions",
};

async function takeAll(
  browser: Browser,
  scene: string,
  url: string,
  paths: Record<string, string>,
): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const)
    for (const width of [1280, 360]) {
      const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme });
      for (const [name, path] of Object.entries(paths)) {
        const page = await context.newPage();
        await page.goto(`${url}${path}`);
        await page.waitForTimeout(150);
        const size = width === 360 ? "narrow" : "wide";
        const height = Math.min(
          2_400,
          (await page.evaluate("document.documentElement.scrollHeight")) as number,
        );
        await page.screenshot({
          path: join(folder, `${scene}-${name}-${size}-${colorScheme}.png`),
          fullPage: true,
          clip: { x: 0, y: 0, width, height },
        });
        await page.close();
      }
      await context.close();
    }
}

mkdirSync(folder, { recursive: true });
const browser = await startChromium();
for (const [scene, fill] of Object.entries(scenes)) {
  if (only !== undefined && only !== scene) continue;
  const place = mkdtempSync(join(tmpdir(), "dbq-screenshots-"));
  const file = join(place, "dbq.db");
  const queue = await openQueue(file);
  const more = await fill(queue, file);
  const ui = dashboard(queue, { authorize: () => ({ allow: "all", actor: "eva" }) });
  const server = createServer(toNodeHandler(ui)).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  await takeAll(browser, scene, `http://127.0.0.1:${(server.address() as AddressInfo).port}`, {
    ...pages,
    ...more,
  });
  await ui.close();
  server.closeAllConnections();
  server.close();
  await queue.close();
  rmSync(place, { recursive: true });
}
await browser.close();
