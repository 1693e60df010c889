/** Real pages in a real browser: chromium, and a dashboard behind Node's own server. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { onTestFinished } from "vitest";
import { type DashboardOptions, dashboard, toNodeHandler } from "../../../src/features/dashboard/index.ts";
import { openQueue, type Queue } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";

export const pagePaths = [
  "/",
  "/tasks",
  "/failures",
  "/workflows",
  "/queues",
  "/schedules",
  "/workers",
  "/functions",
  "/audit",
] as const;

export interface Site {
  queue: Queue;
  /** The file of the queue's database. */
  file: string;
  url: string;
  /** Ends the server and its dashboard, as a deployment does. */
  stop(): Promise<void>;
  /** Starts them again on the same port. */
  start(): Promise<void>;
}

/** @param options `authorize` is "all" by default, by eva */
export async function openSite(options: DashboardOptions = {}): Promise<Site> {
  const file = join(temporaryFolder(), "dbq.db");
  const queue = await openQueue(file);
  let stop = async () => {};
  let port = 0;
  const start = async () => {
    const ui = dashboard(queue, {
      basePath: "/ops/dbq",
      authorize: () => ({ allow: "all", actor: "eva" }),
      pollInterval: 250,
      ...options,
    });
    const server = createServer(toNodeHandler(ui));
    await listening(server, port);
    port = (server.address() as AddressInfo).port;
    stop = async () => {
      await ui.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    };
  };
  await start();
  onTestFinished(async () => {
    await stop();
    await queue.close();
  });
  return { queue, file, url: `http://127.0.0.1:${port}/ops/dbq`, stop: () => stop(), start };
}

function listening(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
}

/** A page in a profile of its own, closed after the test. It counts what a page of ours never does. */
export interface Tab extends Page {
  /** Errors of scripts and of the policy, and requests to other hosts. */
  readonly wrongs: string[];
}

export async function openTab(browser: Browser, options: BrowserContextOptions = {}): Promise<Tab> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const wrongs: string[] = [];
  page.on("pageerror", (error) => wrongs.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && /Content Security|Refused|script/i.test(message.text()))
      wrongs.push(message.text());
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.hostname !== "127.0.0.1") wrongs.push(`a request to ${url.hostname}`);
  });
  return Object.assign(page, { wrongs });
}
