/** What people do in the dashboard, in a real browser: each action, live updates, a restart of the server, the keyboard. */
import type { Browser, Locator } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { chromiumHere, startChromium } from "../../support/chromium.ts";
import { isMissing } from "../../support/server.ts";
import { openSite, openTab, type Site, type Tab } from "./browser.ts";
import { evil, ordinary } from "./scenes.ts";

const send = remoteTask("send");

/** Presses a button, says yes where it asks, and gives the message that appears. */
async function press(
  tab: Tab,
  name: string,
  { asks, within = tab.locator("main") }: { asks?: string; within?: Locator } = {},
): Promise<string> {
  await within.getByRole("button", { name, exact: true }).first().click();
  if (asks !== undefined) await tab.getByRole("dialog").getByRole("button", { name: asks }).click();
  const toast = tab.locator("#toasts .notice");
  await toast.waitFor();
  const message = await toast.innerText();
  await toast.click();
  await toast.waitFor({ state: "detached" });
  return message;
}

describe.skipIf(isMissing(chromiumHere()))("actions", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  test("a task is edited, run now, cancelled, retried, enqueued again and deleted, and the page follows", async () => {
    const site = await openSite();
    const id = await site.queue.enqueueTask(send.with({ delay: "1h" }), "first");
    const tab = await openTab(browser);
    await tab.goto(`${site.url}/tasks/${id}`);
    await tab.getByLabel("Arguments, a JSON array").fill('["second", 2]');
    await tab.getByLabel("Priority").fill("8");
    expect(await press(tab, "Save")).toContain(`Task ${id} is changed`);
    expect(await site.queue.getTask(id)).toMatchObject({ args: ["second", 2], priority: 8 });
    await tab.getByText('["second", 2]').first().waitFor();
    await tab.getByLabel("Arguments, a JSON array").fill('["third"');
    expect(await press(tab, "Save")).toContain("args: ");
    expect(await tab.getByLabel("Arguments, a JSON array").inputValue()).toBe('["third"');
    await tab.reload();
    expect(await press(tab, "Run now")).toBe(`Task ${id} runs as soon as a worker is free.`);
    await tab.locator("h1 .status.pending").waitFor();
    expect(await press(tab, "Cancel", { asks: "Cancel the task" })).toBe(`Task ${id} is cancelled.`);
    await tab.locator("h1 .status.cancelled").waitFor();
    expect(await press(tab, "Retry")).toContain(`Task ${id} is pending`);
    expect(await press(tab, "Enqueue again")).toContain("is enqueued, with the same arguments");
    expect((await site.queue.listTasks()).map(({ args }) => args)).toEqual([
      ["second", 2],
      ["second", 2],
    ]);
    expect(await tab.locator("main").innerText()).toMatch(/What people did[\s\S]*enqueue by eva/);
    expect(await press(tab, "Delete", { asks: "Delete the task" })).toContain(`Task ${id} is deleted`);
    expect(await site.queue.getTask(id)).toBeUndefined();
    await tab.getByText("There is no such task any more").waitFor();
    expect(tab.wrongs).toEqual([]);
  });

  test("a person who says no to a question has done nothing", async () => {
    const site = await openSite();
    const id = await site.queue.enqueueTask(send, 1);
    const tab = await openTab(browser);
    await tab.goto(`${site.url}/tasks/${id}`);
    await tab.getByRole("button", { name: "Cancel" }).click();
    await tab.getByRole("dialog").getByRole("button", { name: "Keep it" }).click();
    await tab.getByRole("button", { name: "Delete" }).click();
    await tab.keyboard.press("Escape");
    await tab.getByRole("dialog").waitFor({ state: "detached" });
    expect((await site.queue.getTask(id))?.status).toBe("pending");
    expect(await tab.locator("#toasts .notice").count()).toBe(0);
  });

  test("many tasks: a selection, and all that match, with a preview and progress", async () => {
    const site = await openSite();
    await site.queue.enqueueTasks(Array.from({ length: 1_200 }, (_, i) => [send, i] as const));
    const tab = await openTab(browser);
    await tab.goto(`${site.url}/tasks?limit=50`);
    await tab.getByLabel("Select task 1200").check();
    await tab.getByLabel("Select task 1199").check();
    await tab.getByText("selected (2)").waitFor();
    const { y = Number.POSITIVE_INFINITY } =
      (await tab.getByRole("button", { name: "cancel…" }).boundingBox()) ?? {};
    expect(y).toBeLessThan(tab.viewportSize()?.height ?? 0);
    await tab.getByRole("button", { name: "cancel…" }).click();
    expect(await tab.locator("main").innerText()).toContain("This will cancel 2 tasks.");
    await tab.getByRole("button", { name: "cancel 2 tasks" }).click();
    expect(await tab.locator("main .notice").innerText()).toBe("2 tasks are cancelled.");
    expect(await site.queue.countTasks()).toMatchObject({ cancelled: 2, pending: 1_198 });
    await tab.goto(`${site.url}/tasks?status=pending`);
    await tab.getByText("that match the filter").click();
    await tab.getByRole("button", { name: "delete…" }).click();
    expect(await tab.locator("main").innerText()).toContain(
      "This will delete 1,198 tasks. They are all tasks that are pending.",
    );
    expect(await tab.getByRole("link", { name: "Keep them" }).count()).toBe(1);
    const steps: number[] = [];
    tab.on("request", (request) => request.method() === "POST" && steps.push(1));
    await tab.getByRole("button", { name: "delete 1,198 tasks" }).click();
    expect(await tab.locator("main .notice").innerText()).toBe("1,198 tasks are deleted.");
    expect(await tab.getByRole("link", { name: "Back" }).getAttribute("href")).toMatch(
      /\/tasks\?status=pending$/,
    );
    expect(steps).toHaveLength(12);
    expect(await site.queue.countTasks()).toMatchObject({ cancelled: 2, pending: 0 });
  });

  test("a queue is paused and resumed, and a limit is set, changed and removed", async () => {
    const site = await openSite();
    await site.queue.enqueueTask(send.with({ queueName: evil.slice(0, 100) }), 1);
    const tab = await openTab(browser);
    await tab.goto(`${site.url}/queues`);
    expect(await press(tab, "Pause", { asks: "Pause the queue" })).toContain("is paused");
    await tab.locator("#queues .status.paused").waitFor();
    expect(await press(tab, "Resume")).toContain("goes on");
    await tab.getByText("Set a limit").click();
    for (const [concurrency, text] of [
      ["3", "0 of 3"],
      ["7", "0 of 7"],
    ] as const) {
      await tab.getByLabel("Its name").fill("mail");
      await tab.getByLabel("Running at once").fill(concurrency);
      await tab.getByLabel("Starts, such as").fill("100/1m");
      expect(await press(tab, "Set")).toBe(
        `Queue mail is limited: ${concurrency} at once, 100 in 1m. ` +
          "No task is in a queue of this name, and no worker serves it: check the spelling.",
      );
      await tab.locator("#limits").getByText(text).waitFor();
    }
    await tab.getByLabel("Its name").fill("mail");
    await tab.getByLabel("Starts, such as").fill("often");
    expect(await press(tab, "Set")).toContain("rate: expected how many in how long");
    expect(await press(tab, "Remove", { asks: "Remove the limit" })).toBe(
      "Queue mail is not limited any more.",
    );
    expect(await site.queue.listLimits()).toEqual([]);
    expect(tab.wrongs).toEqual([]);
  });

  const paused = async ({ queue }: Site) =>
    new Set(
      (await queue.listLimits()).flatMap(({ target, pausedAt }) => (pausedAt === null ? [] : [target])),
    );

  test("a function is paused and resumed on its page, and a group of it on the page of limits", async () => {
    const site = await openSite();
    await ordinary(site.queue, site.file);
    await site.queue.setLimit({ func: "call-model", group: evil.slice(0, 60) }, { concurrency: 2 });
    const before = await paused(site);
    const tab = await openTab(browser);
    await tab.goto(`${site.url}/functions`);
    const row = tab.locator("#functions tr").filter({ hasText: "import-catalog" });
    expect(await press(tab, "Pause", { asks: "Pause the function", within: row })).toBe(
      "Function import-catalog is paused: none of its tasks starts, and those that run go on.",
    );
    await row.locator(".status.paused").waitFor();
    expect(await paused(site)).toEqual(new Set([...before, { func: "import-catalog" }]));
    expect(await press(tab, "Resume", { within: row })).toBe(
      "Function import-catalog goes on: 12 tasks that waited start before newer ones.",
    );
    await row.locator(".status.paused").waitFor({ state: "detached" });
    await tab.goto(`${site.url}/queues`);
    const group = tab
      .locator("#limits tr")
      .filter({ hasText: "group of call-model" })
      .filter({ hasText: evil.slice(0, 20) });
    expect(await press(tab, "Pause", { asks: "Pause the group", within: group })).toContain(
      "of call-model is paused",
    );
    await group.locator(".status.paused").waitFor();
    expect(await paused(site)).toEqual(
      new Set([...before, { func: "call-model", group: evil.slice(0, 60) }]),
    );
    expect(await press(tab, "Resume", { within: group })).toContain("of call-model goes on");
    await group.locator(".status.paused").waitFor({ state: "detached" });
    expect(await paused(site)).toEqual(before);
    expect(tab.wrongs).toEqual([]);
  });

  test("without JavaScript a queue, a function and a group are paused and resumed, and Back leads to the page", async () => {
    const site = await openSite();
    await ordinary(site.queue, site.file);
    await site.queue.setLimit({ func: "call-model", group: "acme" }, { concurrency: 2 });
    const before = await paused(site);
    const tab = await openTab(browser, { javaScriptEnabled: false });
    const cases = [
      ["/queues", "#queues", "default", { queueName: "default" }],
      ["/functions", "#functions", "import-catalog", { func: "import-catalog" }],
      ["/queues", "#limits", "acme", { func: "call-model", group: "acme" }],
    ] as const;
    for (const [path, panel, name, target] of cases) {
      await tab.goto(`${site.url}${path}`);
      const row = tab.locator(`${panel} tr`).filter({ has: tab.getByText(name, { exact: true }) });
      await row.getByRole("button", { name: "Pause" }).click();
      expect(await tab.locator("main .notice").innerText()).toContain("is paused");
      expect(await paused(site)).toEqual(new Set([...before, target]));
      await tab.getByRole("link", { name: "Back" }).click();
      expect(tab.url()).toBe(`${site.url}${path}`);
      await row.getByRole("button", { name: "Resume" }).click();
      expect(await tab.locator("main .notice").innerText()).toContain("goes on");
      expect(await paused(site)).toEqual(before);
    }
    expect(tab.wrongs).toEqual([]);
  });

  test("a schedule is paused, resumed and run now", async () => {
    const site = await openSite();
    await site.queue.schedule("nightly", { cron: "0 3 * * *" }, send, "x");
    const tab = await openTab(browser);
    await tab.goto(`${site.url}/schedules`);
    expect(await press(tab, "Pause", { asks: "Pause the schedule" })).toContain("Schedule nightly is paused");
    expect(await press(tab, "Resume")).toContain("Schedule nightly goes on");
    expect(await press(tab, "Run now", { asks: "Make one task" })).toContain("is enqueued");
    expect(await site.queue.countTasks()).toMatchObject({ pending: 1 });
  });

  test.each([true, false])(
    "queues, functions, groups and schedules of the names . and .. are paused and go on, javaScriptEnabled: %s",
    async (javaScriptEnabled) => {
      for (const name of [".", ".."]) {
        const site = await openSite();
        const { queue } = site;
        await queue.enqueueTask(remoteTask(name).with({ queueName: name, group: name }));
        await queue.schedule(name, { every: "1h" }, send);
        await queue.pause({ queueName: name });
        await queue.pause({ func: name });
        await queue.pause({ func: name, group: name });
        await queue.pauseSchedule(name);
        const tab = await openTab(browser, { javaScriptEnabled });
        const resume = async (page: string, within: string) => {
          await tab.goto(`${site.url}${page}`);
          const button = tab.locator(within).getByRole("button", { name: "Resume" }).first();
          await button.click();
          const notice = tab.locator(javaScriptEnabled ? "#toasts .notice" : "main .notice");
          await notice.waitFor();
          return await notice.innerText();
        };
        expect(await resume("/queues", "#queues")).toContain(`Queue ${name} goes on`);
        const others = [await resume("/queues", "#limits"), await resume("/queues", "#limits")];
        expect(others.map((said) => said.split(":")[0]).sort()).toEqual([
          `Function ${name} goes on`,
          `Group ${name} of ${name} goes on`,
        ]);
        expect(await resume("/schedules", "main")).toContain(`Schedule ${name} goes on`);
        expect((await queue.listLimits()).filter(({ pausedAt }) => pausedAt !== null)).toEqual([]);
        expect((await queue.listSchedules())[0]?.pausedAt).toBeNull();
        expect(tab.wrongs).toEqual([]);
      }
    },
  );

  test("a page shows changes as they happen, and waits while somebody types", async () => {
    const site = await openSite();
    const tab = await openTab(browser);
    await tab.goto(`${site.url}/tasks`);
    await tab.locator("#live.live").waitFor();
    await site.queue.enqueueTask(send, "appears by itself");
    await tab.getByText("appears by itself").waitFor();
    await tab.getByLabel("Function").focus();
    await tab.keyboard.type("unfinished");
    await site.queue.enqueueTask(send, "comes later");
    await tab.locator("#live.paused").waitFor();
    expect(await tab.locator("#live").innerText()).toBe("updates paused");
    expect(await tab.getByLabel("Function").inputValue()).toBe("unfinished");
    expect(await tab.getByText("comes later").count()).toBe(0);
    await tab.getByLabel("Function").fill("");
    await tab.getByLabel("Function").blur();
    await tab.getByText("comes later").waitFor();
  });

  test("a page recovers after its server was restarted, and says so meanwhile", async () => {
    const site = await openSite();
    const tab = await openTab(browser);
    await tab.goto(`${site.url}/tasks`);
    await tab.locator("#live.live").waitFor();
    await site.stop();
    await tab.locator("#live.reconnecting").waitFor();
    await site.queue.enqueueTask(send, "enqueued meanwhile");
    await site.start();
    await tab.locator("#live.live").waitFor({ timeout: 15_000 });
    await tab.getByText("enqueued meanwhile").waitFor();
  });

  test("an action of a server that does not answer is reported as not known", async () => {
    const site = await openSite();
    const id = await site.queue.enqueueTask(send.with({ delay: "1h" }), 1);
    const tab = await openTab(browser);
    await tab.goto(`${site.url}/tasks/${id}`);
    await site.stop();
    expect(await press(tab, "Run now")).toBe(
      "The server does not answer. It is not known whether this was done.",
    );
  });

  test("the keyboard alone reaches the content, an action and its question", async () => {
    const site = await openSite();
    const { running } = await ordinary(site.queue, site.file);
    const tab = await openTab(browser);
    await tab.goto(`${site.url}/tasks/${running}`);
    await tab.keyboard.press("Tab");
    expect(await tab.locator(":focus").innerText()).toBe("Skip to the content");
    await tab.keyboard.press("Enter");
    const reached: string[] = [];
    while (reached.at(-1) !== "Cancel" && reached.length < 10) {
      await tab.keyboard.press("Tab");
      reached.push(await tab.locator(":focus").innerText());
    }
    expect(reached).toEqual(["Enqueue again", "Cancel"]);
    await tab.keyboard.press("Enter");
    await tab.getByRole("dialog").waitFor();
    expect(await tab.locator(":focus").innerText()).toBe("Keep it");
    await tab.keyboard.press("Tab");
    await tab.keyboard.press("Enter");
    await tab.locator("#toasts .notice").waitFor();
    expect((await site.queue.getTask(running))?.status).toBe("cancelled");
  });
});
