/**
 * What users get: the packed package in new projects, compiled and run as users would. Nothing is fetched; peers and
 * tools are those of the repository.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  app,
  appPrints,
  elsewhere,
  elsewhereApp,
  loads,
  mixed,
  opener,
  ownDatabase,
  ownKitConfig,
  ownSchema,
  probe,
  serverSchema,
  steering,
  tasks,
  typedTransactions,
  vitestTest,
} from "./programs.ts";
import { Installation } from "./project.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const installation = new Installation();

beforeAll(() => {
  const tools = ["typescript", "tsx", "drizzle-kit", "@types/node"];
  installation.install([...tools, "better-sqlite3", "@types/better-sqlite3"]);
});
afterAll(() => installation.remove());

/** The setups of a project; `compilerOptions` beside `strict`. */
const resolutions = {
  nodenext: { module: "nodenext" },
  bundler: { module: "esnext", moduleResolution: "bundler" },
};

function tsconfig(compilerOptions: object): string {
  const common = {
    strict: true,
    target: "es2022",
    types: ["node"],
    skipLibCheck: true,
    outDir: "out",
    rootDir: ".",
  };
  return JSON.stringify({ compilerOptions: { ...common, ...compilerOptions }, include: ["*.ts", "*.mts"] });
}

test("the package holds the build and the documents, and nothing else", () => {
  const files = readdirSync(installation.package, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(installation.package.length + 1));
  const known = [
    /^(package\.json|bin\.js|LICENSE|compose\.yaml|(README|CHANGELOG|CONTRIBUTING)\.md)$/,
    /^examples\/.*\.(ts|mjs|md|json|py)$/,
    /^docs\/.*\.(md|svg|png|webp|json)$/,
    /^dist\/src\/.*\.(js|d\.ts)$/,
    /^dist\/require\/src\/((entries\/\w+\/)?index\.cjs|features\/drain\/[\w-]+\.cjs|features\/dashboard\/index\.cjs|features\/manager\/index\.cjs|features\/agent\.cjs|features\/testing\/index\.cjs|features\/workflows\/steps\.cjs|.*\.d\.cts)$/,
    /^dist\/drizzle\/\w+\.(js|cjs|d\.ts|d\.cts)$/,
  ];
  expect(files.filter((file) => !known.some((pattern) => pattern.test(file)))).toEqual([]);
  const expected = ["README.md", "LICENSE", "CHANGELOG.md", "docs/architecture.md"];
  expect(expected.filter((file) => !files.includes(file))).toEqual([]);
});

test("relative links in the package's pages lead to files of the package", () => {
  const pages = readdirSync(installation.package, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".md"),
  );
  const links = pages.flatMap((page) => {
    const text = readFileSync(join(installation.package, page), "utf8");
    return Array.from(text.matchAll(/\]\(([^)\s]+)\)/g), ([, target = ""]) => ({ page, target }));
  });
  const relative = links.filter(({ target }) => !/^(\w+:|#)/.test(target));
  expect(relative.length).toBeGreaterThan(50);
  const leads = ({ page, target }: { page: string; target: string }) =>
    existsSync(join(installation.package, dirname(page), target.replace(/#.*/, "")));
  expect(relative.filter((link) => !leads(link))).toEqual([]);
});

test.for(["sqlite", "postgres", "mysql"])(
  "the migrations for %s are text in the build, as drizzle-kit wrote them",
  async (dialect) => {
    const built = join(installation.package, `dist/src/stores/${dialect}/embedded.js`);
    const { migrations } = (await import(built)) as { migrations: { sql: string[] }[] };
    const files = readdirSync(join(root, "migrations", dialect)).filter((file) => file.endsWith(".sql"));
    const written = files.sort().map((file) => readFileSync(join(root, "migrations", dialect, file), "utf8"));
    expect(migrations.map(({ sql }) => sql.join("--> statement-breakpoint"))).toEqual(written);
    expect(readFileSync(built, "utf8")).not.toMatch(/^import/m);
  },
);

test.for(Object.entries(resolutions))(
  "an app compiles under strict with the resolution of %s, and runs",
  ([name, options]) => {
    const project = installation.project(
      `esm-${name}`,
      { type: "module" },
      { "tasks.ts": tasks, "app.ts": app, "tsconfig.json": tsconfig(options) },
    );
    project.command("typescript", "bin/tsc", "-p", ".");
    expect(JSON.parse(project.node("out/app.js"))).toEqual(appPrints);
    expect(existsSync(join(project.folder, "dbq.db"))).toBe(true);
  },
);

/** The compiler's errors in `app`, in dbq's declarations, and in a file with an error, which it must find. */
function errorsOfDeclarations(installed: Installation): string[] {
  const options = { module: "nodenext", skipLibCheck: false, noEmit: true };
  const files = { "app.ts": app, "broken.ts": "export const n: number = '';", "tasks.ts": tasks };
  const project = installed.project(
    "declarations",
    { type: "module" },
    { ...files, "tsconfig.json": tsconfig(options) },
  );
  const { output } = project.try(join(installed.folder, "node_modules/typescript/bin/tsc"), "-p", ".");
  // Drizzle's declarations do not compile without the drivers of all its databases.
  return output.split("\n").filter((line) => /error TS/.test(line) && !/drizzle-orm/.test(line));
}

test("the package's declarations have no errors", () => {
  expect(errorsOfDeclarations(installation)).toEqual([expect.stringMatching(/^broken\.ts/)]);
});

test.for(["nodenext", "node16"])(
  "an app compiles in a CommonJS project with module %s, and runs where Node requires no ES modules",
  (module) => {
    const project = installation.project(
      `cjs-${module}`,
      { type: "commonjs" },
      { "tasks.ts": tasks, "app.ts": app, "tsconfig.json": tsconfig({ module }) },
    );
    project.command("typescript", "bin/tsc", "-p", ".");
    expect(readFileSync(join(project.folder, "out/app.js"), "utf8")).toContain('require("dbq-ts")');
    const printed = project.node("--no-experimental-require-module", "out/app.js");
    expect(JSON.parse(printed)).toEqual(appPrints);
  },
);

test.for(["module", "commonjs"])("an app runs under tsx in a project of type %s", (type) => {
  const project = installation.project(`tsx-${type}`, { type }, { "tasks.ts": tasks, "app.ts": app });
  expect(JSON.parse(project.command("tsx", "dist/cli.mjs", "app.ts"))).toEqual(appPrints);
});

test.for([
  ["module", "import.meta.url"],
  ["commonjs", "__filename"],
] as const)(
  "tasks of a project of type %s run in threads and processes, compiled and under tsx",
  ([type, module]) => {
    const project = installation.project(
      `elsewhere-${type}`,
      { type },
      {
        "tasks.ts": elsewhere(module),
        "app.ts": elsewhereApp,
        "tsconfig.json": tsconfig({ module: "nodenext" }),
      },
    );
    project.command("typescript", "bin/tsc", "-p", ".");
    expect(JSON.parse(project.node("out/app.js"))).toEqual({ thread: true, process: true });
    const underTsx = project.command("tsx", "dist/cli.mjs", "app.ts");
    expect(JSON.parse(underTsx)).toEqual({ thread: true, process: true });
  },
);

// Two copies of dbq are in the process, one required and one imported, and must work as one.
test.for(["tsx", "node"])(
  "an ES module runs the tasks of a CommonJS module under %s, as dbq worker does",
  (how) => {
    const project = installation.project(
      `mixed-${how}`,
      { type: "commonjs" },
      {
        "tasks.ts": steering,
        "main.mjs": mixed,
        "tsconfig.json": tsconfig({ module: "node16" }),
      },
    );
    if (how === "node") project.command("typescript", "bin/tsc", "-p", ".");
    const tasks = how === "node" ? "./out/tasks.js" : "./tasks.ts";
    const args = ["main.mjs", tasks];
    const printed = how === "node" ? project.node(...args) : project.command("tsx", "dist/cli.mjs", ...args);
    expect(JSON.parse(printed)).toEqual({
      copies: 2,
      names: ["enqueue-by-default", "give-up", "look"],
      looked: { status: "completed", result: 1 },
      gaveUp: "cancelled",
      enqueued: { func: "look", status: "completed" },
      isRefused: true,
    });
  },
);

test.for(["module", "commonjs"])(
  "an app of type %s has dbq's tables in its own schema, and enqueues in its own transaction",
  (type) => {
    const project = installation.project(
      `own-${type}`,
      { type },
      {
        "app.ts": ownDatabase,
        "schema.ts": ownSchema,
        "drizzle.config.ts": ownKitConfig,
        "tsconfig.json": tsconfig({ module: "nodenext" }),
      },
    );
    project.command("typescript", "bin/tsc", "-p", ".");
    project.command("drizzle-kit", "bin.cjs", "generate");
    expect(JSON.parse(project.node("out/app.js"))).toEqual({
      orders: 1,
      rows: [{ func: "send", args: "[1]" }],
    });
  },
);

test.for(["module", "commonjs"])("the schemas for servers are there for an app of type %s", (type) => {
  const project = installation.project(
    `schemas-${type}`,
    { type },
    { "app.ts": serverSchema, "tsconfig.json": tsconfig({ module: "nodenext" }) },
  );
  project.command("typescript", "bin/tsc", "-p", ".");
  const required = readFileSync(join(project.folder, "out/app.js"), "utf8").includes("require(");
  expect(required).toBe(type === "commonjs");
  const tables = [
    ...[
      "dbq_agents",
      "dbq_attempts",
      "dbq_audit",
      "dbq_causes",
      "dbq_drains",
      "dbq_events",
      "dbq_failures",
      "dbq_limits",
      "dbq_owed_hooks",
      "dbq_schedules",
      "dbq_settings",
      "dbq_stats",
      "dbq_steps",
      "dbq_task_logs",
      "dbq_tasks",
    ],
    ...["dbq_waits", "dbq_workers"],
  ];
  const { postgres, mysql } = JSON.parse(project.node("out/app.js"));
  expect([postgres.sort(), mysql.sort()]).toEqual([tables, tables]);
});

test("a test of an app runs under vitest", () => {
  installation.add("vitest");
  const files = { "queue.test.ts": vitestTest, "vitest.config.ts": "export default {};" };
  const project = installation.project("vitest", { type: "module" }, files);
  const printed = project.command("vitest", "vitest.mjs", "run");
  expect(stripVTControlCharacters(printed)).toMatch(/Tests +1 passed/);
});

const targets = ["app.db", "postgres://ada@127.0.0.1:1/app", "mysql://ada@127.0.0.1:1/app"];
const otherDriver = "TypeError: expected a Drizzle database over better-sqlite3: this one has another driver";
const missing = (name: string) =>
  `TypeError: openQueue: the package "${name}" is missing: npm install ${name}`;
const unreachable = expect.stringMatching(/^DatabaseError: 127\.0\.0\.1:1: connect ECONNREFUSED/);

describe("without the drivers of servers", () => {
  test.for(["module", "commonjs"])(
    "an app of type %s works on a file, and says what a server needs",
    (type) => {
      const project = installation.project(`drivers-${type}`, { type }, { "app.ts": opener });
      const run = () => JSON.parse(project.command("tsx", "dist/cli.mjs", "app.ts", ...targets));
      expect(run()).toEqual(["0 failed", missing("pg"), missing("mysql2")]);
    },
  );

  test("a project with the drivers reaches the server", () => {
    for (const name of ["pg", "mysql2"]) installation.add(name);
    const project = installation.project("drivers", { type: "module" }, { "app.ts": opener });
    const outcomes = JSON.parse(project.command("tsx", "dist/cli.mjs", "app.ts", ...targets));
    expect(outcomes).toEqual(["0 failed", unreachable, unreachable]);
  });
});

describe("with the driver of Postgres alone", () => {
  let postgresOnly: Installation;
  beforeAll(() => {
    postgresOnly = installation.copy(["typescript", "tsx", "@types/node", "pg"]);
  });
  afterAll(() => postgresOnly.remove());

  test("the package's declarations have no errors", () => {
    expect(existsSync(join(postgresOnly.folder, "node_modules/better-sqlite3"))).toBe(false);
    expect(errorsOfDeclarations(postgresOnly)).toEqual([expect.stringMatching(/^broken\.ts/)]);
  });

  test("transactions have right types without the types of any driver", () => {
    // Without it the compiler finds the drivers' types beside the linked package.
    const options = { module: "nodenext", noEmit: true, preserveSymlinks: true, skipLibCheck: true };
    const project = postgresOnly.project(
      "typed",
      { type: "module" },
      { "app.ts": typedTransactions, "tsconfig.json": tsconfig(options) },
    );
    project.command("typescript", "bin/tsc", "-p", ".");
  });

  test.for(["module", "commonjs"])(
    "an app of type %s connects to Postgres, and says what a file needs, or a Drizzle database of another driver",
    (type) => {
      const project = postgresOnly.project(`drivers-${type}`, { type }, { "app.ts": opener });
      const outcomes = project.command("tsx", "dist/cli.mjs", "app.ts", ...targets, "drizzle");
      const sqlite = missing("better-sqlite3");
      expect(JSON.parse(outcomes)).toEqual([sqlite, unreachable, missing("mysql2"), otherDriver]);
    },
  );

  test("its command runs, and says what a file needs", () => {
    const file = join(postgresOnly.package, postgresOnly.manifest().bin.dbq ?? "");
    const project = postgresOnly.project("command", {}, {});
    expect(project.node(file, "--help")).toMatch(/worker/);
    const { status, output } = project.try(file, "migrate", "--db", join(project.folder, "dbq.db"));
    expect(output).toContain(missing("better-sqlite3").replace("TypeError: openQueue: ", ""));
    expect(status).not.toBe(0);
  });
});

test("an import of dbq opens nothing, loads no driver and adds no listener to the process", () => {
  const project = installation.project("probe", { type: "module" }, {});
  const log = join(installation.folder, "loads.log");
  writeFileSync(log, "");
  writeFileSync(join(installation.folder, "probe.mjs"), probe);
  writeFileSync(join(installation.folder, "loads.mjs"), loads);
  const { before, after, opened } = JSON.parse(project.node("../probe.mjs", log));
  // Only the parser of duration strings comes with it.
  expect(after).toEqual({ ...before, packages: ["dbq-ts", "ms"] });
  // The probe reports a driver once one is loaded.
  expect(opened.packages).toEqual(expect.arrayContaining(["better-sqlite3", "drizzle-orm"]));
  expect(opened.addons).toBe(before.addons + 1);
  expect(opened.files).toEqual(expect.arrayContaining(["probe.db"]));
});

test("the package's command exists and runs", () => {
  const file = join(installation.package, installation.manifest().bin.dbq ?? "");
  expect(existsSync(file), "the package has no command: there is no bin.js").toBe(true);
  if (process.platform !== "win32") expect(statSync(file).mode & 0o111).toBe(0o111);
  const project = installation.project("command", {}, {});
  const help = project.node(file, "--help");
  expect(help).toMatch(/worker/);
  expect(help).toMatch(/enqueue/);
  // The docs write this path, and `npx dbq-ts`: the package named dbq is somebody else's.
  expect(installation.manifest().bin).toEqual({ dbq: "bin.js", "dbq-ts": "bin.js" });
  const path = join(installation.folder, "node_modules/dbq-ts/bin.js");
  expect(project.node(path, "--version")).toBe(`${installation.manifest().version}\n`);
  const database = ["--json", "--db", join(project.folder, "dbq.db")];
  project.node(file, "migrate", ...database);
  expect(JSON.parse(project.node(file, "list", ...database))).toEqual([]);
});

test("the README's quickstart compiles under strict, and prints what the README says", () => {
  const readme = readFileSync(join(installation.package, "README.md"), "utf8");
  const [, name = "", code = ""] = /^```ts\n\/\/ ([\w-]+\.mts)\n([\s\S]*?)^```$/m.exec(readme) ?? [];
  const promised = /It prints `([^`]+)`/.exec(readme)?.[1];
  const project = installation.project(
    "readme",
    {},
    {
      [name]: code,
      "tsconfig.json": tsconfig({ module: "nodenext" }),
    },
  );
  project.command("typescript", "bin/tsc", "-p", ".");
  expect(project.node(`out/${name.replace(".mts", ".mjs")}`)).toBe(`${promised}\n`);
  rmSync(join(project.folder, "quickstart.db"));
  expect(project.command("tsx", "dist/cli.mjs", name)).toBe(`${promised}\n`);
});
