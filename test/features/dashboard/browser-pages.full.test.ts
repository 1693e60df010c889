/** Every page in a real browser: empty, full and hostile data, both themes, 360 px, accessibility, and without JavaScript. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromiumHere, startChromium } from "../../support/chromium.ts";
import { isMissing } from "../../support/server.ts";
import { openSite, openTab, pagePaths } from "./browser.ts";
import { failed } from "./failure-scene.ts";
import { mess } from "./mess-scene.ts";
import { hostile, ordinary, tooMuch } from "./scenes.ts";
import { flows } from "./workflow-scene.ts";

const axeScript = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe finds in both themes, as rule and element. Only the colours differ in the dark one. */
async function violations(page: Page): Promise<string[]> {
  // Through the debugger: the page's policy forbids scripts that are not its own.
  await page.evaluate(axeScript);
  const all: AxeResults = await page.evaluate("axe.run()");
  await page.emulateMedia({ colorScheme: "dark" });
  const dark: AxeResults = await page.evaluate('axe.run({ runOnly: ["color-contrast"] })');
  await page.emulateMedia({ colorScheme: "light" });
  return [...all.violations, ...dark.violations].flatMap(({ id, nodes }) =>
    nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`),
  );
}

/** Pixels by which the document is wider than the window. */
const overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

/** The columns whose head is aligned to another side than a cell below it. */
const apart = `[...document.querySelectorAll("table")].flatMap((table) =>
  [...table.querySelectorAll("thead th")].flatMap((head, n) => {
    const isRight = (cell) => ["right", "end"].includes(getComputedStyle(cell).textAlign);
    const cells = [...table.querySelectorAll("tbody tr")].flatMap((row) => row.children[n] ?? []);
    return cells.every((cell) => isRight(cell) === isRight(head)) ? [] : [head.textContent];
  }),
)`;

describe.skipIf(isMissing(chromiumHere()))("pages", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  const scenes = {
    empty: async () => ["/tasks?status=failed", "/tasks/9", "/?range=30d"],
    ordinary: async (queue, file) => {
      const { failed, running, scheduled } = await ordinary(queue, file);
      return [`/tasks/${failed}`, `/tasks/${running}`, `/tasks/${scheduled}`, "/?range=7d"];
    },
    workflows: async (_, file) => {
      const { order, wide, hostile: evil } = flows(file);
      return [`/workflows/${order}`, `/workflows/${wide}?limit=12`, `/workflows/${evil}`];
    },
    failures: async (_, file) => {
      const { ids, task } = failed(file);
      return [...ids.map((id) => `/failures/${id}`), `/tasks?failure=${ids[0]}`, `/tasks/${task}`];
    },
    mess: async (queue, file) => {
      const { ids, hung } = await mess(queue, file);
      return [
        ...[`/tasks/${hung}`, `/failures/${ids[0]}`, "/queues/detail?name=newsletters&range=24h"],
        "/functions/detail?name=charge-card",
      ];
    },
    hostile: async (queue, file) => [`/tasks/${await hostile(queue, file)}`],
  } satisfies Record<string, (...given: Parameters<typeof ordinary>) => Promise<string[]>>;

  describe.each(Object.entries(scenes))("with data that is %s", (_, fill) => {
    test("axe finds nothing in either theme, and no page is wider than 360 px or runs a stranger's script", async () => {
      const site = await openSite();
      // Axe looks at each cell: a few rows have all that more rows would have.
      const few = pagePaths.map((path) => (path === "/tasks" ? "/tasks?limit=12" : path));
      const paths = [...few, ...(await fill(site.queue, site.file))];
      const tab = await openTab(browser, { viewport: { width: 360, height: 740 } });
      for (const path of paths) {
        await tab.goto(`${site.url}${path}`);
        // A page that says that there is no such task has nothing to follow.
        await tab.locator("#live.live, .answer").waitFor();
        const seen = { path, overflow: await tab.evaluate(overflow), violations: await violations(tab) };
        expect(seen).toEqual({ path, overflow: 0, violations: [] });
      }
      expect(await tab.evaluate("window.hacked")).toBeUndefined();
      expect(tab.wrongs).toEqual([]);
    }, 120_000);
  });

  test.each([360, 1_280])("lists without an end do not push a page aside at %i px", async (width) => {
    const site = await openSite();
    await tooMuch(site.queue, site.file);
    const tab = await openTab(browser, { viewport: { width, height: 740 } });
    for (const path of [...pagePaths, "/tasks?status=failed&q=replicas"]) {
      await tab.goto(`${site.url}${path}`);
      expect([path, await tab.evaluate(overflow)]).toEqual([path, 0]);
    }
    expect(tab.wrongs).toEqual([]);
  });

  test("at 360 px the state and the buttons of queues, functions, limits and schedules are in sight", async () => {
    const site = await openSite();
    await ordinary(site.queue, site.file);
    const tab = await openTab(browser, { viewport: { width: 360, height: 740 } });
    for (const path of ["/queues", "/functions", "/schedules"]) {
      await tab.goto(`${site.url}${path}`);
      const shown = tab.locator("main .acts button, main tbody .status");
      const edges = await shown.evaluateAll((all) => all.map((each) => each.getBoundingClientRect().right));
      expect([path, edges.length > 3, Math.max(...edges) < 360]).toEqual([path, true, true]);
    }
  });

  test("at 360 px no list scrolls sideways: its rows are cards", async () => {
    const site = await openSite();
    await mess(site.queue, site.file);
    const tab = await openTab(browser, { viewport: { width: 360, height: 740 } });
    for (const path of pagePaths) {
      await tab.goto(`${site.url}${path}`);
      const wide = await tab
        .locator(".panel > .scrolls, form > .scrolls")
        .evaluateAll((all) =>
          all
            .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
            .map((each) => each.getAttribute("aria-label")),
        );
      expect([path, wide]).toEqual([path, []]);
    }
  });

  test("the head of a column stands where its values stand: numbers, at the right", async () => {
    const site = await openSite();
    const { ids } = await mess(site.queue, site.file);
    const tab = await openTab(browser);
    const details = ["/queues/detail?name=newsletters", "/functions/detail?name=charge-card"];
    for (const path of [...pagePaths, ...details, `/failures/${ids[0]}`]) {
      await tab.goto(`${site.url}${path}`);
      expect([path, await tab.evaluate(apart)]).toEqual([path, []]);
    }
  });

  test("each page has its heading, its entry in the menu, and charts where there are numbers", async () => {
    const site = await openSite();
    await ordinary(site.queue, site.file);
    const tab = await openTab(browser);
    const headings = [
      "Overview",
      "Tasks",
      "Failures",
      "Workflows",
      "Queues and limits",
      "Schedules",
      "Workers",
      "Functions",
      "What people did",
    ];
    for (const [i, path] of pagePaths.entries()) {
      await tab.goto(`${site.url}${path}`);
      expect(await tab.locator("h1").textContent()).toBe(headings[i]);
      expect(await tab.locator('nav [aria-current="page"]').count()).toBe(1);
    }
    await tab.goto(site.url);
    await tab.locator("#chart-count canvas").waitFor();
    expect(await tab.locator(".plot canvas").count()).toBe(3);
    const drawn = "getComputedStyle(document.body).backgroundColor";
    const light = await tab.evaluate(drawn);
    await tab.emulateMedia({ colorScheme: "dark" });
    expect(await tab.evaluate(drawn)).not.toBe(light);
    expect(await tab.locator(".plot canvas").count()).toBe(3);
  });

  test("an error without an end does not push a page aside at 1280 px", async () => {
    const site = await openSite();
    const id = await hostile(site.queue, site.file);
    const tab = await openTab(browser);
    for (const path of [...pagePaths, `/tasks/${id}`]) {
      await tab.goto(`${site.url}${path}`);
      expect([path, await tab.evaluate(overflow)]).toEqual([path, 0]);
    }
  });

  test("without JavaScript every page can be read, and a form asks, acts and answers", async () => {
    const site = await openSite();
    const { failed, scheduled } = await ordinary(site.queue, site.file);
    const tab = await openTab(browser, { javaScriptEnabled: false });
    for (const path of pagePaths) {
      await tab.goto(`${site.url}${path}`);
      expect(await tab.locator("main").innerText()).toMatch(/\w/);
    }
    await tab.goto(`${site.url}/`);
    await tab.getByText("As a table").first().click();
    expect(await tab.locator("#chart-count td").first().innerText()).toMatch(/^2\d{3}-/);
    await tab.goto(`${site.url}/tasks/${failed}`);
    await tab.getByRole("button", { name: "Retry" }).click();
    expect(await tab.locator(".notice").innerText()).toContain(`Task ${failed} is pending`);
    await tab.getByRole("link", { name: "Back" }).click();
    expect(tab.url()).toBe(`${site.url}/tasks/${failed}`);
    await tab.goto(`${site.url}/tasks/${scheduled}`);
    await tab.getByLabel("Priority").fill("9");
    await tab.getByRole("button", { name: "Save" }).click();
    expect((await site.queue.getTask(scheduled))?.priority).toBe(9);
    await tab.goto(`${site.url}/tasks?func=import-catalog`);
    await tab.getByText("that match the filter").click();
    await tab.getByRole("button", { name: "cancel…" }).click();
    expect(await tab.locator("main").innerText()).toContain("This will cancel 12 tasks.");
    await tab.getByRole("button", { name: "cancel 12 tasks" }).click();
    expect(await tab.locator(".notice").innerText()).toBe("12 tasks are cancelled.");
    expect(await site.queue.countTasks({ func: "import-catalog" })).toMatchObject({ cancelled: 12 });
  });
});
