/**
 * Packs the package and installs it into the kinds of projects that users have, with their package manager, on their
 * runtime, from the registry. Each one runs tasks: `npm run test:full` checks without a network what needs none.
 *
 * `node scripts/check-install.mjs pnpm next` runs the kinds whose names contain one of the words. Without a registry, or
 * without Postgres or Redis, it says so and does less; with `DBQ_REQUIRE_ALL=1` it fails. Kinds that differ little from another
 * one, and Next with webpack, which takes more than a minute, run with `--all`, as in the nightly job, or when they are asked for.
 */
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { checkFrameworks, packages } from "./installed-frameworks.mjs";
import {
  app,
  drained,
  drainIntoBullmq,
  drizzleFiles,
  drizzlePrints,
  expected,
  jestTest,
  nextFiles,
  schemaFiles,
  tasks,
} from "./installed-programs.mjs";
import {
  asHere,
  binaryOf,
  freePort,
  install,
  longest,
  npmInstall,
  Program,
  root,
  run,
  write,
} from "./installed-projects.mjs";

const postgres = process.env.DBQ_TEST_POSTGRES_URL ?? "postgres://postgres@127.0.0.1:5432/postgres";
const redis = process.env.DBQ_TEST_REDIS_URL ?? "redis://127.0.0.1:6379";
const folder = mkdtempSync(join(tmpdir(), "dbq-install-"));
const tarball = join(folder, "dbq-ts.tgz");
const tools = join(folder, "tools");
const node = process.execPath;
const platform = `${process.platform}-${process.arch}`;

const withoutDriver = { "dbq-ts": `file:${tarball}`, "drizzle-orm": asHere("drizzle-orm") };
const dependencies = { ...withoutDriver, pg: asHere("pg") };

/**
 * @typedef {{ cwd: string, url: string }} Place a project's folder, and its own database on Postgres
 * @typedef {{ name: string, tools?: string[], run: (place: Place) => Promise<void>, withoutPostgres?: true, withRedis?: true, nightly?: true }} Kind
 * `tools`: what the check needs from the registry beside the project
 */

/**
 * @typedef {object} How an app with a worker of its own process is installed and started, as the docs say
 * @property {Record<string, string>} [files]
 * @property {string[]} [tools]
 * @property {() => string[]} install fills `node_modules`
 * @property {() => string[]} [start] runs a file
 * @property {() => string[]} [worker] the command `dbq`
 */

/**
 * @param {string} name
 * @param {How} how
 * @returns {Kind}
 */
function appWith(name, how) {
  const files = { ...projectFiles(dependencies), ...how.files };
  return {
    name,
    tools: how.tools ?? [],
    run: async ({ cwd, url }) => await checkApp({ ...how, files }, cwd, url),
  };
}

/**
 * The same app on Postgres and on a file of SQLite. Version 13 of better-sqlite3 contains binaries that run on each of these
 * runtimes.
 * @param {string} name
 * @param {How} how
 * @returns {Kind}
 */
function runtimeWith(name, how) {
  const files = projectFiles({ ...dependencies, "better-sqlite3": "13" });
  return {
    name,
    tools: how.tools ?? [],
    run: async ({ cwd, url }) => {
      await checkApp({ ...how, files }, cwd, url);
      await runApp(how, cwd, join(cwd, "app.db"));
    },
  };
}

/** @param {Record<string, string>} packages */
function projectFiles(packages) {
  const manifest = { name: "app", private: true, type: "module", dependencies: packages };
  return { "package.json": JSON.stringify(manifest), "tasks.js": tasks, "app.js": app };
}

/**
 * @param {How} how
 * @param {string} cwd
 * @param {string} url
 */
async function checkApp(how, cwd, url) {
  write(cwd, how.files ?? {});
  await install(cwd, how.install());
  await runApp(how, cwd, url);
}

/**
 * @param {Pick<How, "start" | "worker">} how
 * @param {string} cwd
 * @param {string} url
 */
async function runApp({ start = () => [node], worker }, cwd, url) {
  const settings = { cwd, env: { DBQ_URL: url } };
  const starter = worker?.() ?? [...start(), "node_modules/dbq-ts/bin.js"];
  const create = url.includes("://") ? [] : ["--create"];
  const [program = "", ...args] = [...starter, "worker", ...create, "./tasks.js"];
  const serving = new Program(settings, program, ...args);
  await serving.said(/ ready /);
  compare(JSON.parse(await command(settings, [...start(), "app.js"])), expected);
  const { code, output } = await serving.stop();
  if (code !== 0) throw new Error(`after SIGTERM the worker ended with ${code}:\n${output}`);
}

const inTools = (/** @type {string} */ file) => join(tools, "node_modules", file);
const npm = () => npmInstall;
const pnpm = { tools: ["pnpm@12"], install: () => [node, inTools("pnpm/bin/pnpm.mjs"), "install"] };
const yarn4 = () => [node, inTools("@yarnpkg/cli-dist/bin/yarn.js")];
const bun = () => binaryOf(tools, "@oven", "bin/bun");
const yarnFiles = {
  "yarn.lock": "",
  ".yarnrc.yml": "enableTelemetry: false\nenableImmutableInstalls: false\n",
};

/** @type {Record<string, How>} CI runs this script with the oldest Node. */
const runtimes = {
  Bun: { tools: ["bun@1"], install: () => [bun(), "install"], start: () => [bun()] },
  Deno: {
    tools: ["deno@2"],
    install: npm,
    start: () => [binaryOf(tools, "@deno", "deno"), "run", "--allow-all"],
  },
  "Node 26": nodeOf("26"),
};

/** The versions between the oldest and the newest run one project. */
const nodesBetween = ["22", "24"].map(nodeOf);

/** @param {Place} place */
async function onNodesBetween({ cwd }) {
  write(cwd, projectFiles({ ...withoutDriver, "better-sqlite3": "13" }));
  await install(cwd, npm());
  for (const [i, how] of nodesBetween.entries()) await runApp(how, cwd, join(cwd, `app-${i}.db`));
}

/**
 * @param {string} version
 * @returns {How}
 */
function nodeOf(version) {
  return {
    tools: [`node${version}@npm:node-${platform}@${version}`],
    install: npm,
    start: () => [inTools(`node${version}/bin/node`)],
  };
}

/** @param {Kind} kind @returns {Kind} the same, which runs only when it is asked for, or all are */
const nightly = (kind) => ({ ...kind, nightly: true });

/** BullMQ's own types are its own business. */
const strict = { strict: true, module: "nodenext", target: "es2022", skipLibCheck: true, types: ["node"] };

/** @type {Kind[]} */
const kinds = [
  { name: "npm, the README's quickstart on SQLite", run: quickstart, withoutPostgres: true },
  { name: "Next, with Turbopack", run: (place) => next(place, []) },
  nightly({ name: "Next, with webpack", run: (place) => next(place, ["--webpack"]) }),
  appWith("npm, Postgres alone", { install: npm }),
  nightly(appWith("pnpm", pnpm)),
  appWith("Yarn 1", {
    tools: ["yarn1@npm:yarn@1.22"],
    install: () => [node, inTools("yarn1/bin/yarn.js"), "install", "--silent", "--ignore-scripts"],
  }),
  nightly(
    appWith("Yarn 4, with node_modules", {
      files: { ...yarnFiles, ".yarnrc.yml": `${yarnFiles[".yarnrc.yml"]}nodeLinker: node-modules\n` },
      tools: ["@yarnpkg/cli-dist@4"],
      install: () => [...yarn4(), "install"],
    }),
  ),
  appWith("Yarn 4, with Plug'n'Play", {
    files: yarnFiles,
    tools: ["@yarnpkg/cli-dist@4"],
    install: () => [...yarn4(), "install"],
    start: () => [...yarn4(), "node"],
    worker: () => [...yarn4(), "dbq"],
  }),
  ...Object.entries(runtimes).map(([name, how]) => runtimeWith(name, how)),
  nightly({
    name: "Node 22 and 24, on SQLite",
    tools: nodesBetween.flatMap(({ tools = [] }) => tools),
    run: onNodesBetween,
    withoutPostgres: true,
  }),
  ownDatabases("0.44", "0.31"),
  ownDatabases("1.0.0-rc.5", "1.0.0-rc.5"),
  { name: "a monorepo of npm workspaces", run: (place) => monorepo(place, npm(), "*", "../../node_modules") },
  {
    name: "a monorepo of pnpm",
    tools: pnpm.tools,
    run: (place) => monorepo(place, pnpm.install(), "workspace:*", "node_modules"),
  },
  { name: "Jest, in CommonJS", run: jest },
  { name: "Jest, in ES modules of TypeScript", run: jestWithTypeScript, withoutPostgres: true },
  intoBullmq("5"),
  // The tests run with this version.
  nightly(intoBullmq("6")),
  { name: "the frameworks of docs/frameworks.md", run: frameworks },
];

/** @param {Place} place */
async function quickstart({ cwd }) {
  write(cwd, { "package.json": JSON.stringify({ name: "app", private: true }) });
  await install(cwd, [...npm(), tarball, ...["drizzle-orm", "tsx"].map((name) => `${name}@${asHere(name)}`)]);
  for (const driver of ["better-sqlite3", "pg", "mysql2", "bullmq", "ioredis"])
    if (existsSync(join(cwd, "node_modules", driver)))
      throw new Error(`npm installed ${driver}, an optional peer`);
  await install(cwd, [...npm(), `better-sqlite3@${asHere("better-sqlite3")}`]);
  copyBuiltDriver(cwd);
  const readme = readFileSync(join(cwd, "node_modules/dbq-ts/README.md"), "utf8");
  const [, file = "", code = ""] = /^```ts\n\/\/ ([\w-]+\.mts)\n([\s\S]*?)^```$/m.exec(readme) ?? [];
  write(cwd, { [file]: code });
  const printed = await command({ cwd }, ["npx", "--no", "tsx", file]);
  compare(printed.trim(), /It prints `([^`]+)`/.exec(readme)?.[1]);
  await command({ cwd }, ["npx", "--no", "dbq-ts", "--help"]);
}

/**
 * Three packages, as docs/frameworks.md lays them out: the server and the worker import the package of the tasks.
 * @param {Place} place
 * @param {string[]} installation
 * @param {string} version what names a package of the same workspace
 * @param {string} modules the folder that has dbq, seen from the worker's package
 */
async function monorepo({ cwd, url }, installation, version, modules) {
  const manifest = (/** @type {object} */ fields) =>
    JSON.stringify({ private: true, type: "module", ...fields });
  const member = manifest({ dependencies: { "@shop/tasks": version, ...dependencies } });
  write(cwd, {
    "package.json": manifest({ workspaces: ["packages/*"] }),
    "pnpm-workspace.yaml": "packages: [packages/*]\n",
    "packages/tasks/package.json": manifest({
      name: "@shop/tasks",
      version: "1.0.0",
      exports: "./tasks.js",
      dependencies: withoutDriver,
    }),
    "packages/tasks/tasks.js": tasks,
    "packages/web/package.json": member,
    "packages/web/app.js": app.replace("./tasks.js", "@shop/tasks"),
    "packages/worker/package.json": member,
    "packages/worker/tasks.js": 'import "@shop/tasks";\n',
  });
  await install(cwd, installation);
  const env = { DBQ_URL: url };
  const bin = `${modules}/dbq-ts/bin.js`;
  const serving = new Program({ cwd: join(cwd, "packages/worker"), env }, node, bin, "worker", "./tasks.js");
  await serving.said(/ ready /);
  compare(JSON.parse(await command({ cwd: join(cwd, "packages/web"), env }, [node, "app.js"])), expected);
  await serving.stop();
}

/**
 * Runs a test on Postgres, and the one of docs/testing.md on SQLite.
 * @param {Place} place
 */
async function jest({ cwd, url }) {
  const all = { ...dependencies, "better-sqlite3": asHere("better-sqlite3") };
  const manifest = { name: "app", private: true, dependencies: all, devDependencies: { jest: "30" } };
  write(cwd, { "package.json": JSON.stringify(manifest), "queue.test.js": jestTest });
  await install(cwd, npm());
  copyBuiltDriver(cwd);
  const page = readFileSync(join(cwd, "node_modules/dbq-ts/docs/testing.md"), "utf8");
  const [, file = "", code = ""] = /^```js\n\/\/ (\S+jest\S+)\n([\s\S]*?)^```$/m.exec(page) ?? [];
  write(cwd, { [file]: code });
  await command({ cwd, env: { DBQ_URL: url } }, [node, "node_modules/jest/bin/jest.js"]);
  await command({ cwd }, [node, "node_modules/jest/bin/jest.js", "--testMatch", `**/${file}`]);
}

/**
 * Runs the tests of examples/app that are for Jest.
 * @param {Place} place
 */
async function jestWithTypeScript({ cwd }) {
  const own = ["better-sqlite3", "hono", "@hono/node-server"].map((name) => [name, asHere(name)]);
  const manifest = {
    name: "app",
    private: true,
    type: "module",
    dependencies: { ...withoutDriver, ...Object.fromEntries(own) },
    devDependencies: { jest: "30", "@swc/core": "1", "@swc/jest": "0.2" },
  };
  write(cwd, { "package.json": JSON.stringify(manifest) });
  await install(cwd, npm());
  copyBuiltDriver(cwd);
  cpSync(join(cwd, "node_modules/dbq-ts/examples/app"), cwd, { recursive: true });
  await command({ cwd }, [node, "--experimental-vm-modules", "node_modules/jest/bin/jest.js"]);
}

/**
 * Compiling the driver takes minutes, and `npm ci` has done it.
 * @param {string} cwd
 */
function copyBuiltDriver(cwd) {
  const built = "node_modules/better-sqlite3/build";
  cpSync(join(root, built), join(cwd, built), { recursive: true });
}

/**
 * A project that drains into a version of BullMQ: its types are checked, and one message is sent.
 * @param {string} version
 * @returns {Kind}
 */
function intoBullmq(version) {
  const others = ["better-sqlite3", "ioredis", "typescript", "@types/node"].map((name) => [
    name,
    asHere(name),
  ]);
  const files = {
    ...projectFiles({ ...withoutDriver, ...Object.fromEntries(others), bullmq: version }),
    "drain.ts": drainIntoBullmq,
    "tsconfig.json": JSON.stringify({ compilerOptions: { ...strict, outDir: "out" }, include: ["drain.ts"] }),
  };
  return {
    name: `a drain into BullMQ ${version}`,
    withoutPostgres: true,
    withRedis: true,
    run: async ({ cwd }) => {
      write(cwd, files);
      await install(cwd, npm());
      copyBuiltDriver(cwd);
      await command({ cwd }, [node, "node_modules/typescript/bin/tsc"]);
      const printed = await command({ cwd, env: { REDIS_URL: redis } }, [node, "out/drain.js"]);
      compare(JSON.parse(printed), drained);
    },
  };
}

/**
 * An app with a version of Drizzle: its drizzle-kit makes dbq's tables, its types are checked with those of dbq, and it enqueues in
 * its own transactions and in dbq's, on its own databases and on URLs.
 * @param {string} orm
 * @param {string} kit
 * @returns {Kind}
 */
function ownDatabases(orm, kit) {
  const here = ["pg", "better-sqlite3", "typescript", "@types/node", "@types/pg", "@types/better-sqlite3"];
  const versions = Object.fromEntries(here.map((name) => [name, asHere(name)]));
  const packages = { ...withoutDriver, ...versions, "drizzle-orm": orm, "drizzle-kit": kit };
  const options = { ...strict, skipLibCheck: false, outDir: "out" };
  const files = {
    ...projectFiles(packages),
    ...drizzleFiles,
    ...schemaFiles(),
    "tsconfig.json": JSON.stringify({ compilerOptions: options, include: ["own.ts", "rows.ts"] }),
  };
  return {
    name: `Drizzle ${orm}`,
    run: async ({ cwd, url }) => {
      write(cwd, files);
      await install(cwd, npm());
      copyBuiltDriver(cwd);
      const { output } = await new Program({ cwd }, node, "node_modules/typescript/bin/tsc").ended;
      // Drizzle's declarations do not compile without the drivers of all its databases.
      const errors = output.split("\n").filter((line) => /error TS/.test(line) && !/drizzle-orm/.test(line));
      compare(errors, []);
      await command({ cwd }, [node, "node_modules/drizzle-kit/bin.cjs", "generate"]);
      const printed = await command({ cwd, env: { DBQ_URL: url } }, [node, "out/own.js"]);
      compare(JSON.parse(printed), drizzlePrints);
    },
  };
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
  await install(cwd, npm());
  await checkFrameworks(cwd, url);
}

/**
 * @param {Place} place
 * @param {string[]} options
 */
async function next({ cwd, url }, options) {
  const peers = { "prom-client": asHere("prom-client") };
  const all = { ...dependencies, ...peers, next: "16", react: "19", "react-dom": "19" };
  write(cwd, {
    "package.json": JSON.stringify({ name: "app", private: true, type: "module", dependencies: all }),
    "tasks.js": tasks,
    ...nextFiles(),
  });
  await install(cwd, npm());
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
  const seen = await lookAtDashboard(`http://127.0.0.1:${port}/ops/dbq`);
  await Promise.all([server.stop(), worker.stop()]);
  if (!answer.ok) throw new Error(`${answer.status}: ${server.output}`);
  compare(JSON.parse(text), expected);
  compare(seen, { closed: 401, page: 200, showsTasks: true, script: 200, metrics: 200, countsTasks: true });
}

/**
 * The dashboard of examples/dashboard, which lets its admin in.
 * @param {string} url
 */
async function lookAtDashboard(url) {
  const headers = { authorization: `Basic ${btoa("admin:secret")}`, accept: "text/html" };
  const closed = await fetch(`${url}/tasks`);
  const page = await fetch(`${url}/tasks`, { headers });
  const html = await page.text();
  const [, path = ""] = /<script src="([^"]+)"/.exec(html) ?? [];
  const script = await fetch(new URL(path, url), { headers });
  const metrics = await fetch(`${url}/metrics`, { headers });
  return {
    closed: closed.status,
    page: page.status,
    showsTasks: html.includes("double"),
    script: script.status,
    metrics: metrics.status,
    countsTasks: /^dbq_tasks\{queue="default",status="pending"\} \d+$/m.test(await metrics.text()),
  };
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
  const noRedis = await connectionRefused(redis);
  return ({ withoutPostgres, withRedis }) => {
    if (withRedis && noRedis) return `there is no Redis (DBQ_TEST_REDIS_URL): ${noRedis.message}`;
    return withoutPostgres ? undefined : reason;
  };
}

/**
 * @param {string} url
 * @returns {Promise<Error | undefined>} why nothing can connect there
 */
async function connectionRefused(url) {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port || 6379), timeout: 5_000 });
  socket.once("timeout", () => socket.destroy(new Error("it did not answer within 5 s")));
  try {
    await once(socket, "connect");
    return undefined;
  } catch (error) {
    return /** @type {Error} */ (error);
  } finally {
    socket.destroy();
  }
}

/** @param {Kind[]} chosen */
async function prepare(chosen) {
  write(tools, { "package.json": "{}" });
  const wanted = [...new Set(chosen.flatMap((kind) => kind.tools ?? []))];
  const packed = await run(
    { cwd: root, limit: longest.build },
    "npm",
    "pack",
    "--silent",
    "--pack-destination",
    folder,
  );
  cpSync(join(folder, packed.trim().split("\n").at(-1) ?? ""), tarball);
  if (wanted.length > 0) await install(tools, [...npm(), ...wanted]);
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

const all = process.argv.includes("--all");
const words = process.argv.slice(2).filter((word) => word !== "--all");
const isAsked = (/** @type {Kind} */ { name, nightly }) =>
  words.length === 0
    ? nightly !== true || all
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
