/**
 * Takes pictures of the dashboard in chromium.
 *
 * `npm run screenshots` makes the pictures of docs/dashboard.md anew. `npm run screenshots -- FOLDER [scene]` takes every page:
 * scenes are empty, ordinary, workflows, failures, hostile and toomuch; each in both themes, wide and narrow.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, BrowserContextOptions } from "playwright-core";
import { dashboard, toNodeHandler } from "../src/features/dashboard/index.ts";
import { openQueue, type Queue } from "../src/index.ts";
import { failed } from "../test/features/dashboard/failure-scene.ts";
import { hostile, ordinary, tooMuch } from "../test/features/dashboard/scenes.ts";
import { flows } from "../test/features/dashboard/workflow-scene.ts";
import { startChromium } from "../test/support/chromium.ts";

const [folder, only] = process.argv.slice(2);

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
  workflows: async (_, file) => {
    const { order, wide, hostile: evil } = flows(file);
    return {
      run: `/workflows/${order}`,
      cut: `/workflows/${wide}?limit=20`,
      evil: `/workflows/${evil}`,
      event: "/workflows?event=approved:a-9",
    };
  },
  failures: async (_, file) => {
    const { ids, task } = failed(file);
    return {
      kind: `/failures/${ids[0]}`,
      long: `/failures/${ids[4]}`,
      gone: `/failures/${ids[5]}`,
      task: `/tasks/${task}`,
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
  failures: "/failures",
  workflows: "/workflows",
  queues: "/queues",
  schedules: "/schedules",
  workers: "/workers",
  functions: "/functions",
};

/** The pictures of the docs: each of a page of the ordinary scene, if it names no other one. */
const pictures: Record<string, { scene?: string; page: string; options: BrowserContextOptions }> = {
  "dashboard-overview": { page: "overview", options: wide("light", 860) },
  "dashboard-tasks": { page: "tasks", options: wide("light", 640) },
  "dashboard-task": { page: "failed", options: wide("dark", 900) },
  "dashboard-workflow": { scene: "workflows", page: "run", options: wide("light", 860) },
  "dashboard-queues": { page: "queues", options: wide("light", 640) },
  "dashboard-phone": {
    page: "overview",
    options: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 1.5, colorScheme: "dark" },
  },
};

function wide(colorScheme: "light" | "dark", height: number): BrowserContextOptions {
  return { viewport: { width: 1_200, height }, colorScheme };
}

async function takePictures(
  browser: Browser,
  of: string,
  url: string,
  paths: Record<string, string>,
): Promise<void> {
  for (const [name, { scene = "ordinary", page: shown, options }] of Object.entries(pictures)) {
    if (scene !== of) continue;
    const context = await browser.newContext(options);
    const page = await context.newPage();
    await page.goto(`${url}${paths[shown]}`);
    await page.locator("#live.live").waitFor();
    const png = await page.screenshot();
    await context.close();
    writeFileSync(join("docs/images", `${name}.webp`), await webpOf(browser, png));
  }
}

/** The browser writes WebP itself: no other tool has to be installed. */
async function webpOf(browser: Browser, png: Buffer): Promise<Buffer> {
  const page = await browser.newPage();
  const encoded: string = await page.evaluate(`(async () => {
    const image = new Image();
    image.src = "data:image/png;base64,${png.toString("base64")}";
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    canvas.getContext("2d").drawImage(image, 0, 0);
    return canvas.toDataURL("image/webp", 0.85);
  })()`);
  await page.close();
  return Buffer.from(encoded.slice(encoded.indexOf(",") + 1), "base64");
}

async function takeAll(
  browser: Browser,
  into: string,
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
          path: join(into, `${scene}-${name}-${size}-${colorScheme}.png`),
          fullPage: true,
          clip: { x: 0, y: 0, width, height },
        });
        await page.close();
      }
      await context.close();
    }
}

/** Serves a scene while `use` takes pictures of it. */
async function withScene(
  scene: string,
  use: (url: string, paths: Record<string, string>) => Promise<void>,
): Promise<void> {
  const place = mkdtempSync(join(tmpdir(), "dbq-screenshots-"));
  const file = join(place, "dbq.db");
  const queue = await openQueue(file);
  const more = await scenes[scene]?.(queue, file);
  const ui = dashboard(queue, { authorize: () => ({ allow: "all", actor: "eva" }) });
  const server = createServer(toNodeHandler(ui)).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { ...pages, ...more });
  await ui.close();
  server.closeAllConnections();
  server.close();
  await queue.close();
  rmSync(place, { recursive: true });
}

const browser = await startChromium();
if (folder === undefined) {
  for (const scene of ["ordinary", "workflows"])
    await withScene(scene, (url, paths) => takePictures(browser, scene, url, paths));
} else {
  mkdirSync(folder, { recursive: true });
  for (const scene of Object.keys(scenes))
    if (only === undefined || only === scene)
      await withScene(scene, (url, paths) => takeAll(browser, folder, scene, url, paths));
}
await browser.close();
