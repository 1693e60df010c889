/**
 * The demo on documents that are meant to break it: it loses no document, though a worker is killed; the pages are harmless,
 * and all their links have a target.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readCommand, UsageError } from "../../demo/command.ts";
import { databaseOf, loadPlan, tasksOf } from "../../demo/plan.ts";
import type { Summary } from "../../demo/summary.ts";
import { openQueue, type Task } from "../../src/index.ts";
import { temporaryFolder } from "../support/queue.ts";
import { writeDocuments, writeMany } from "./documents.ts";
import { harmIn, hashOf, readPage, type Tag, tagsOf } from "./page.ts";
import { type Ended, runDemo, startDemo } from "./run.ts";

function pathsIn(tags: readonly Tag[]): string[] {
  const addresses = tags.flatMap(({ attributes }) => attributes.get("href") ?? []);
  return addresses
    .filter((address) => !/^(?:https?:|mailto:|#)/.test(address))
    .map((address) => decodeURIComponent(address.replace(/#.*/, "")));
}

describe("a site of thirty unusual documents", () => {
  const folder = mkdtempSync(join(tmpdir(), "dbq-test-"));
  const site = join(folder, "site");
  let paths: string[];
  let ended: Ended;
  let summary: Summary;
  let tasks: Task[];

  beforeAll(async () => {
    paths = writeDocuments(join(folder, "documents"));
    ended = await runDemo(join(folder, "documents"), "--out", site, "--json");
    summary = JSON.parse(ended.stdout);
    tasks = await finalTasks(site);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test("the demo loses no task", () => {
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stderr).not.toMatch(/^(?:failed|skipped)|DbqWarning|^ {4}at /m);
    expect(paths).toHaveLength(30);
    expect(summary).toMatchObject({ tasks: 31, completed: 31, failed: 0, lost: 0, site });
  });

  test("other workers run the tasks of the killed worker", () => {
    expect(summary.killedWorkers).toBe(1);
    expect(summary.interrupted).toBeGreaterThanOrEqual(1);
    // The bound only catches a rescue that never happened.
    expect(summary.recoveryMs).toBeGreaterThanOrEqual(0);
    expect(summary.recoveryMs).toBeLessThan(20_000);
  });

  test("tasks whose flaky step has failed are retried", () => {
    // A tenth of thirty is three. The kill may have ended the first attempt at one of them.
    expect(summary.retried + summary.interrupted).toBeGreaterThanOrEqual(3);
    expect(summary.retried).toBeLessThanOrEqual(3);
    expect(tasks.filter(({ retryCount }) => retryCount > 0).length).toBeGreaterThanOrEqual(3);
  });

  test("the index is written once, after all pages", () => {
    const [index, ...others] = tasks.filter(({ func }) => func === "writeIndex");
    const pages = tasks.filter(({ func }) => func === "renderPage");
    expect(others).toEqual([]);
    expect(index?.result).toEqual({ entries: 30 });
    expect(Number(index?.finishedAt)).toBeGreaterThanOrEqual(
      Math.max(...pages.map(({ finishedAt }) => Number(finishedAt))),
    );
  });

  test("each document has its own page, and the index links to it", () => {
    const { body, policy, style } = readPage(readFileSync(join(site, "index.html"), "utf8"));
    const [list = "", script = "", rest] = body.split(/<script>|<\/script>/);
    expect(rest).toBe("");
    expect(policy).toContain(`script-src ${hashOf(script)};`);
    expect(policy).toContain(`style-src ${hashOf(style)};`);
    const linked = pathsIn(tagsOf(list));
    expect(new Set(linked).size).toBe(30);
    expect(linked.toSorted()).toEqual(
      readdirSync(join(site, "pages"))
        .map((page) => `pages/${page}`)
        .toSorted(),
    );
    expect(list).toContain("<strong>Grüße</strong>");
    expect(list).toContain("<strong>Setext</strong>");
    expect(list.match(/<strong>Sixteen ü<\/strong>/g)).toHaveLength(2);
  });

  test("no page runs or loads anything, and all its links have a target", () => {
    for (const page of readdirSync(join(site, "pages"))) {
      const { policy, style, body } = readPage(readFileSync(join(site, "pages", page), "utf8"));
      expect(policy).toBe(
        `default-src 'none'; style-src ${hashOf(style)}; base-uri 'none'; form-action 'none'`,
      );
      const parts = /^<header[\s\S]*<article>\n([\s\S]*)\n<\/article>\n<\/main>\n<footer>[^<]*<\/footer>\n?$/;
      const [, content] = parts.exec(body) ?? [];
      expect(content, page).toBeDefined();
      expect(harmIn(content ?? ""), page).toEqual([]);
      const linked = pathsIn(tagsOf(body));
      expect(linked).toContain("../index.html");
      for (const path of linked) expect(existsSync(join(site, "pages", path)), `${page}: ${path}`).toBe(true);
    }
  });

  test("links between documents open their pages", async () => {
    const { documents } = await loadPlan(site);
    const page = (path: string) => documents.find((document) => document.path === path)?.page ?? path;
    const linksOf = (path: string) => {
      const { body } = readPage(readFileSync(join(site, "pages", page(path)), "utf8"));
      return tagsOf(body)
        .flatMap(({ attributes }) => attributes.get("href") ?? [])
        .slice(1);
    };
    expect(linksOf("README.md")).toEqual([page("guide/README.md"), page("a/README.md"), page("a/README.md")]);
    expect(linksOf("a/README.md")).toEqual([`${page("b/README.md")}#two`]);
    expect(linksOf("names/with space.md")).toEqual([page("names/a#b.md"), page("names/what?.md")]);
    expect(linksOf("guide/deep/deeper/deepest.md")).toEqual([page("README.md")]);
  });
});

describe("the exit code", () => {
  test("is 1 when a document cannot be read, and the others have their pages", async (context) => {
    const folder = temporaryFolder();
    writeMany(folder, 3);
    try {
      // A file whose name is not valid UTF-8 can be listed, but not opened by the listed name.
      writeFileSync(
        Buffer.concat([Buffer.from(`${folder}/bad-`), Buffer.from([0xff]), Buffer.from(".md")]),
        "x",
      );
    } catch (error) {
      return context.skip(`this file system refuses names that are not valid UTF-8: ${error}`);
    }
    const site = join(temporaryFolder(), "site");
    const { code, stdout, stderr } = await runDemo(folder, "--out", site, "--json");
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ tasks: 5, completed: 4, failed: 1, lost: 0 });
    expect(stderr).toMatch(/failed: .*bad-/);
    expect(readFileSync(join(site, "index.html"), "utf8")).toContain("Without a page");
  });

  test.each([
    ["a missing folder", ["/nowhere/at/all"], /\/nowhere\/at\/all: there is no such folder/],
    ["a file instead of a folder", [import.meta.filename], /: not a folder/],
    ["an unknown option", ["--fast"], /--fast/],
  ])("is 2 for %s", async (_, args, message) => {
    const { code, stdout, stderr } = await runDemo(...args, "--json");
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/^ {4}at /m);
  });

  test.each([
    [["a", "b"], /expected one folder/],
    [["--workers", "0"], /--workers: .*"0"/],
    [["--workers", "33"], /--workers: .*"33"/],
    [["--workers", "3.5"], /--workers: .*"3\.5"/],
    [["--workers", "three"], /--workers: .*"three"/],
    [["--workers"], /--workers/],
    [["--json=yes"], /--json/],
    [["--small"], /--small: it needs --mess/],
    [["docs", "--mess"], /--mess: it takes no folder, got "docs"/],
    [["--mess", "--workers", "2"], /--mess: it does not take --workers/],
  ])("is 2, by a UsageError, for %j", (args, message) => {
    expect(() => readCommand(args)).toThrow(UsageError);
    expect(() => readCommand(args)).toThrow(message);
  });

  test("is 2 for a folder without Markdown, and no site is made", async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "sub.md"));
    const site = join(temporaryFolder(), "site");
    const { code, stderr } = await runDemo(folder, "--out", site);
    expect(code).toBe(2);
    expect(stderr).toContain("there is no Markdown file");
    expect(existsSync(site)).toBe(false);
  });

  test("is 2 for a site folder that is not empty, which is left unchanged", async () => {
    const folder = temporaryFolder();
    writeMany(folder, 1);
    const { code, stderr } = await runDemo(folder, "--out", folder);
    expect(code).toBe(2);
    expect(stderr).toContain("is not empty");
    expect(readdirSync(folder)).toEqual(["0.md"]);
  });

  test("is 0 for --help, which shows an example", async () => {
    const { code, stdout } = await runDemo("--help");
    expect(code).toBe(0);
    expect(stdout).toContain("Examples:");
  });
});

test("with one document and one worker, a new worker replaces the killed one", async () => {
  const folder = temporaryFolder();
  writeMany(folder, 1);
  const { code, stdout } = await runDemo(folder, "--out", join(temporaryFolder(), "site"), "--workers", "1");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^lost +0$/m);
  // The second task is the index, if it was just counting the unfinished pages.
  expect(stdout).toMatch(/^killed workers +1, while running [12] tasks?$/m);
  expect(stdout).toMatch(/^site +file:\/\/\/.*\/index\.html$/m);
});

describe("a demo that is interrupted", () => {
  // `ended` resolves only when no process has the pipes open: a worker that is left would keep them open.
  test.each([
    // With one worker, no task runs until the replacement has started.
    ["SIGINT", 1, 300, 130],
    ["SIGTERM", 1, 300, 143],
    // With three workers, two are running tasks, and the killed parent sends them no signal.
    ["SIGKILL", 3, 800, null],
  ] as const)("by %s leaves no worker behind", async (signal, workers, documents, expected) => {
    const folder = temporaryFolder();
    writeMany(folder, documents);
    const site = join(temporaryFolder(), "site");
    const demo = startDemo(folder, "--out", site, "--workers", String(workers), "--json");
    await demo.says("was killed");
    demo.child.kill(signal);
    const { code, stdout } = await demo.ended;
    expect({ code, stdout }).toEqual({ code: expected, stdout: "" });
  });
});

async function finalTasks(site: string): Promise<Task[]> {
  await using queue = await openQueue(databaseOf(site), { migrate: false });
  const { runId } = await loadPlan(site);
  const tasks: Task[] = [];
  for await (const task of tasksOf(queue, { requestId: runId })) tasks.push(task);
  return tasks;
}

test("--dashboard shows the tasks behind the printed address, and stays until it is stopped", async () => {
  const folder = temporaryFolder();
  writeDocuments(join(folder, "documents"));
  const demo = startDemo(join(folder, "documents"), "--out", join(folder, "site"), "--json", "--dashboard");
  let stderr = "";
  demo.child.stderr?.on("data", (text) => (stderr += text));
  await demo.says("the dashboard stays until Ctrl-C");
  const url = /dashboard: (\S+)/.exec(stderr)?.[1] ?? "";
  expect((await fetch(new URL("/", url))).status).toBe(403);
  const entered = await fetch(url, { redirect: "manual" });
  const cookie = entered.headers.get("set-cookie")?.split(";")[0] ?? "";
  const page = await fetch(new URL("/tasks", url), { headers: { cookie, accept: "text/html" } });
  expect(await page.text()).toContain("writeIndex");
  demo.child.kill("SIGINT");
  const { code, stdout } = await demo.ended;
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ lost: 0, failed: 0 });
});
