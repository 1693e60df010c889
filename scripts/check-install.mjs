/**
 * Packs the package and installs it into the kinds of projects that users have, with their package manager, on their
 * runtime, from the registry. Each one runs tasks: `npm run test:full` checks without a network what needs none.
 *
 * `node scripts/check-install.mjs pnpm next` runs the kinds whose names contain one of the words. Without a registry, or
 * without Postgres, it says so and does less; with `DBQ_REQUIRE_ALL=1` it fails. Next with webpack takes more than a minute:
 * it runs only with `DBQ_SAMPLE=1`, as in the nightly job, or when it is asked for.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { checkFrameworks, packages } from "./installed-frameworks.mjs";
import { app, expected, jestTest, nextFiles, tasks } from "./installed-programs.mjs";
import { asHere, binaryOf, freePort, Program, root, run, write } from "./installed-projects.mjs";

const postgres = process.env.DBQ_TEST_POSTGRES_URL ?? "postgres://postgres@127.0.0.1:5432/postgres";
const folder = mkdtempSync(join(tmpdir(), "dbq-install-"));
const tarball = join(folder, "dbq-ts.tgz");
const tools = join(folder, "tools");
const npmInstall = ["install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"];
const node = process.execPath;
const platform = `${process.platform}-${process.arch}`;

const dependencies = { "dbq-ts": `file:${tarball}`, "drizzle-orm": asHere("drizzle-orm"), pg: asHere("pg") };

/**
 * @typedef {{ cwd: string, url: string }} Place a project's folder, and its own database on Postgres
 * @typedef {{ name: string, tools?: string[], run: (place: Place) => Promise<void>, withoutPostgres?: true, nightly?: true }} Kind
 * `tools`: what the check needs from the registry beside the project
 */

/**
 * An app with a worker of its own process, which is started as the docs say: `install` fills `node_modules`, `start` runs a
 * file, `worker` the command.
 * @param {string} name
 * @param {{ files?: Record<string, string>, tools?: string[], install: () => string[], start?: () => string[], worker?: () => string[] }} how
 * @returns {Kind}
 */
function appWith(name, { files = {}, tools = [], install, start = () => [node], worker }) {
  return {
    name,
    tools,
    run: async ({ cwd, url }) => {
      write(cwd, {
        "package.json": JSON.stringify({ name: "app", private: true, type: "module", dependencies }),
        "tasks.js": tasks,
        "app.js": app,
        ...files,
      });
      await command({ cwd }, install());
      const settings = { cwd, env: { DBQ_URL: url } };
      const starter = worker?.() ?? [...start(), "node_modules/dbq-ts/bin.js"];
      const [program = "", ...args] = [...starter, "worker", "./tasks.js"];
      const serving = new Program(settings, program, ...args);
      await serving.said(/ ready /);
      compare(JSON.parse(await command(settings, [...start(), "app.js"])), expected);
      const { code, output } = await serving.stop();
      if (code !== 0) throw new Error(`after SIGTERM the worker ended with ${code}:\n${output}`);
    },
  };
}

const inTools = (/** @type {string} */ file) => join(tools, "node_modules", file);
const npm = () => ["npm", ...npmInstall];
const yarn4 = () => [node, inTools("@yarnpkg/cli-dist/bin/yarn.js")];
const bun = () => binaryOf(tools, "@oven", "bin/bun");
const yarnFiles = {
  "yarn.lock": "",
  ".yarnrc.yml": "enableTelemetry: false\nenableImmutableInstalls: false\n",
};

/** @type {Kind[]} */
const kinds = [
  { name: "npm, the README's quickstart on SQLite", run: quickstart, withoutPostgres: true },
  { name: "Next, with Turbopack", run: (place) => next(place, []) },
  { name: "Next, with webpack", run: (place) => next(place, ["--webpack"]), nightly: true },
  appWith("npm, Postgres alone", { install: npm }),
  appWith("pnpm", { tools: ["pnpm@12"], install: () => [node, inTools("pnpm/bin/pnpm.mjs"), "install"] }),
  appWith("Yarn 1", {
    tools: ["yarn1@npm:yarn@1.22"],
    install: () => [node, inTools("yarn1/bin/yarn.js"), "install", "--silent", "--ignore-scripts"],
  }),
  appWith("Yarn 4, with node_modules", {
    files: { ...yarnFiles, ".yarnrc.yml": `${yarnFiles[".yarnrc.yml"]}nodeLinker: node-modules\n` },
    tools: ["@yarnpkg/cli-dist@4"],
    install: () => [...yarn4(), "install"],
  }),
  appWith("Yarn 4, with Plug'n'Play", {
    files: yarnFiles,
    tools: ["@yarnpkg/cli-dist@4"],
    install: () => [...yarn4(), "install"],
    start: () => [...yarn4(), "node"],
    worker: () => [...yarn4(), "dbq"],
  }),
  appWith("Bun", { tools: ["bun@1"], install: () => [bun(), "install"], start: () => [bun()] }),
  appWith("Deno", {
    tools: ["deno@2"],
    install: npm,
    start: () => [binaryOf(tools, "@deno", "deno"), "run", "--allow-all"],
  }),
  ...["22", "24"].map((version) =>
    appWith(`Node ${version}`, {
      tools: [`node${version}@npm:node-${platform}@${version}`],
      install: npm,
      start: () => [inTools(`node${version}/bin/node`)],
    }),
  ),
  { name: "Jest, in CommonJS", run: jest },
  { name: "the frameworks of docs/frameworks.md", run: frameworks },
];

/** @param {Place} place */
async function quickstart({ cwd }) {
  write(cwd, { "package.json": JSON.stringify({ name: "app", private: true }) });
  await command({ cwd }, [
    ...npm(),
    tarball,
    ...["drizzle-orm", "tsx"].map((name) => `${name}@${asHere(name)}`),
  ]);
  for (const driver of ["better-sqlite3", "pg", "mysql2"])
    if (existsSync(join(cwd, "node_modules", driver)))
      throw new Error(`npm installed ${driver}, an optional peer`);
  await command({ cwd }, [...npm(), `better-sqlite3@${asHere("better-sqlite3")}`]);
  // Compiling the driver takes minutes, and `npm ci` has done it.
  const built = "node_modules/better-sqlite3/build";
  cpSync(join(root, built), join(cwd, built), { recursive: true });
  const readme = readFileSync(join(cwd, "node_modules/dbq-ts/README.md"), "utf8");
  const [, file = "", code = ""] = /^```ts\n\/\/ ([\w-]+\.mts)\n([\s\S]*?)^```$/m.exec(readme) ?? [];
  write(cwd, { [file]: code });
  const printed = await command({ cwd }, ["npx", "--no", "tsx", file]);
  compare(printed.trim(), /It prints `([^`]+)`/.exec(readme)?.[1]);
  await command({ cwd }, ["npx", "--no", "dbq-ts", "--help"]);
}

/** @param {Place} place */
async function jest({ cwd, url }) {
  const manifest = { name: "app", private: true, dependencies, devDependencies: { jest: "30" } };
  write(cwd, { "package.json": JSON.stringify(manifest), "queue.test.js": jestTest });
  await command({ cwd }, npm());
  await command({ cwd, env: { DBQ_URL: url } }, [node, "node_modules/jest/bin/jest.js"]);
}

/** @param {Place} place */
async function frameworks({ cwd, url }) {
  const manifest = {
    name: "app",
    private: true,
    type: "module",
    dependencies: { ...dependencies, ...packages },
  };
  write(cwd, { "package.json": JSON.stringify(manifest) });
  await command({ cwd }, npm());
  await checkFrameworks(cwd, url);
}

/**
 * @param {Place} place
 * @param {string[]} options
 */
async function next({ cwd, url }, options) {
  const all = { ...dependencies, next: "16", react: "19", "react-dom": "19" };
  write(cwd, {
    "package.json": JSON.stringify({ name: "app", private: true, type: "module", dependencies: all }),
    "tasks.js": tasks,
    ...nextFiles(),
  });
  await command({ cwd }, npm());
  const settings = { cwd, env: { DBQ_URL: url, NEXT_TELEMETRY_DISABLED: "1" } };
  const cli = [node, "node_modules/next/dist/bin/next"];
  const built = await command(settings, [...cli, "build", ...options]);
  if (/warning|can't resolve/i.test(built)) throw new Error(built);
  const port = String(await freePort());
  const [program = "", ...args] = [...cli, "start", "--port", port];
  const server = new Program(settings, program, ...args);
  const worker = new Program(settings, node, "node_modules/dbq-ts/bin.js", "worker", "./tasks.js");
  await Promise.all([server.said(/Ready in/), worker.said(/ ready /)]);
  const answer = await fetch(`http://127.0.0.1:${port}/check`);
  const text = await answer.text();
  await Promise.all([server.stop(), worker.stop()]);
  if (!answer.ok) throw new Error(`${answer.status}: ${server.output}`);
  compare(JSON.parse(text), expected);
}

/**
 * @param {import("./installed-projects.mjs").Settings} settings
 * @param {string[]} line
 */
async function command(settings, [program = "", ...args]) {
  return await run(settings, program, ...args);
}

/**
 * @param {unknown} actual
 * @param {unknown} wanted
 */
function compare(actual, wanted) {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`expected ${b}, got ${a}`);
}

/** @param {string} statement */
async function administer(statement) {
  const client = new pg.Client({ connectionString: postgres, connectionTimeoutMillis: 5_000 });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

/**
 * Runs a kind of project in a folder and with a database of its own.
 * @param {Kind} kind
 * @returns {Promise<boolean>} whether it passed
 */
async function checkKind(kind) {
  const started = performance.now();
  const number = kinds.indexOf(kind);
  const database = `dbq_install_${process.pid}_${number}`;
  const cwd = join(folder, `project-${number}`);
  mkdirSync(cwd);
  const url = new URL(postgres);
  url.pathname = `/${database}`;
  const seconds = () => `${((performance.now() - started) / 1_000).toFixed(1)} s`;
  try {
    if (!kind.withoutPostgres) await administer(`create database ${database}`);
    await kind.run({ cwd, url: url.href });
    console.log(`ok      ${kind.name} (${seconds()})`);
    return true;
  } catch (error) {
    console.error(`FAILED  ${kind.name} (${seconds()}): ${error instanceof Error ? error.message : error}`);
    return false;
  } finally {
    if (!kind.withoutPostgres)
      await administer(`drop database if exists ${database} with (force)`).catch(() => undefined);
  }
}

/**
 * Why this machine cannot check a kind of project; undefined: it can.
 * @returns {Promise<(kind: Kind) => string | undefined>}
 */
async function obstacles() {
  const version = await run({ cwd: folder }, "npm", "view", "ms", "version").catch(() => undefined);
  if (version === undefined) return () => "the npm registry cannot be reached";
  const refusal = await administer("select 1").catch((error) => error);
  const reason = refusal && `there is no Postgres (DBQ_TEST_POSTGRES_URL): ${refusal.message}`;
  return ({ withoutPostgres }) => (withoutPostgres ? undefined : reason);
}

/** @param {Kind[]} chosen */
async function prepare(chosen) {
  write(tools, { "package.json": "{}" });
  const wanted = [...new Set(chosen.flatMap((kind) => kind.tools ?? []))];
  const packed = await run({ cwd: root }, "npm", "pack", "--silent", "--pack-destination", folder);
  cpSync(join(folder, packed.trim().split("\n").at(-1) ?? ""), tarball);
  if (wanted.length > 0) await command({ cwd: tools }, [...npm(), ...wanted]);
}

/** Two at a time: most of it waits for the network. @param {Kind[]} chosen */
async function checkAll(chosen) {
  const waiting = [...chosen];
  let failed = 0;
  const lane = async () => {
    for (let kind = waiting.shift(); kind !== undefined; kind = waiting.shift())
      if (!(await checkKind(kind))) failed += 1;
  };
  await Promise.all([lane(), lane()]);
  return failed;
}

const words = process.argv.slice(2);
const isAsked = (/** @type {Kind} */ { name, nightly }) =>
  words.length === 0
    ? nightly !== true || process.env.DBQ_SAMPLE === "1"
    : words.some((word) => name.toLowerCase().includes(word.toLowerCase()));

async function main() {
  const obstacleOf = await obstacles();
  const asked = kinds.filter(isAsked);
  const chosen = asked.filter((kind) => obstacleOf(kind) === undefined);
  for (const kind of asked)
    if (!chosen.includes(kind)) console.log(`skipped ${kind.name}: ${obstacleOf(kind)}`);
  if (chosen.length > 0) await prepare(chosen);
  const failed = await checkAll(chosen);
  const passed = chosen.length - failed;
  console.log(`${passed} of ${asked.length} kinds of projects install the package and run tasks`);
  const isEnough = process.env.DBQ_REQUIRE_ALL !== "1" || chosen.length === asked.length;
  if (failed > 0 || !isEnough) process.exitCode = 1;
}

try {
  await main();
} finally {
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
}
