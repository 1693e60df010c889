/** Pages that lead their reader from an empty folder to something that runs: each step is taken, and prints what they show. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Installation } from "../package/project.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { isMissing } from "../support/server.ts";
import { type Code, type Page, readPage } from "./pages.ts";
import { installed } from "./scratch.ts";
import { Walk } from "./walk.ts";

const page = readPage("docs/getting-started.md");
const testingPage = readPage("docs/testing.md");
const shownUrl = "postgres://postgres:postgres@127.0.0.1/postgres";
const withoutPostgres = isMissing(await postgresServer());
/** What a page asks its reader to set where Node does not run TypeScript. */
const setup = page.code.filter(({ text }) => text.startsWith("# only for Node"));

let installation: Installation;

beforeAll(() => {
  installation = installed();
  return () => installation.remove();
});

/** The blocks of a page before a heading, and those after it. */
function parts({ lines, code }: Page, heading: string): [Code[], Code[]] {
  const at = lines.indexOf(heading) + 1;
  expect(at, heading).toBeGreaterThan(0);
  return [code.filter(({ line }) => line < at), code.filter(({ line }) => line > at)];
}

/** Takes the steps, compiles the files, and then stops the workers by Ctrl-C. @returns what each worker has printed */
async function follow(walk: Walk, blocks: readonly Code[]): Promise<string[]> {
  onTestFinished(async () => void (await walk.stop()));
  for (const block of blocks) await walk.step(block);
  await walk.compile();
  return await walk.stop();
}

vi.setConfig({ testTimeout: 300_000 });

describe(page.path, () => {
  const [onSqlite, onPostgres] = parts(page, "## The same on Postgres");
  const stopped = [expect.stringMatching(/ stopped /)];

  test("each step works on SQLite, and prints what the page shows", async () => {
    expect(await follow(new Walk(installation, "shop"), onSqlite)).toEqual(stopped);
  });

  test.skipIf(withoutPostgres)("each step works on Postgres, and prints what the page shows", async () => {
    const { url, drop } = await newSchema();
    onTestFinished(drop);
    const tasks = onSqlite.filter(({ text }) => text.startsWith("// tasks.ts"));
    const walk = new Walk(installation, "shop-pg", { [shownUrl]: url });
    expect(await follow(walk, [...setup, ...tasks, ...onPostgres])).toEqual(stopped);
  });
});

/** Jest is not installed here. What the page uses of it, over node:test. */
const globalsOfJest = `
const { afterEach, beforeEach, test } = require("node:test");
const { deepStrictEqual, ok } = require("node:assert");
const matchers = { toEqual: (got, wanted) => (deepStrictEqual(got, wanted), { pass: true }) };
const expect = (got) =>
  new Proxy(matchers, {
    get: (_, name) => (...wanted) => {
      const { pass, message } = matchers[name].call({}, got, ...wanted);
      ok(pass, pass ? undefined : message());
    },
  });
expect.extend = (more) => Object.assign(matchers, more);
Object.assign(globalThis, { afterEach, beforeEach, test, expect });
`;

describe(testingPage.path, () => {
  const [onSqlite, onPostgres] = parts(testingPage, "## Postgres in tests");

  test("its tests pass under vitest and node:test", async () => {
    const walk = new Walk(installation, "tested", {
      'npx jest --testMatch "**/': 'node --require ./jest.cjs --test "',
    });
    writeFileSync(join(walk.folder, "jest.cjs"), globalsOfJest);
    await follow(walk, [...setup, ...onSqlite]);
  });

  test.skipIf(withoutPostgres)("its tests on Postgres pass", async () => {
    const { url } = await postgresServer();
    const files = onSqlite.filter(({ text }) => /^\/\/ (tasks|orders|queue-for-tests)\.ts/.test(text));
    const walk = new Walk(installation, "tested-pg", { [shownUrl]: String(url) });
    await follow(walk, [...setup, ...files, ...onPostgres]);
  });
});
