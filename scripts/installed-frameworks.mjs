/** Compiles and runs the code of docs/frameworks.md, with the frameworks from the registry. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { asHere, freePort, Program, run, write } from "./installed-projects.mjs";

/** What the page uses, beside dbq and its peers. */
export const packages = {
  "@hono/node-server": asHere("@hono/node-server"),
  hono: asHere("hono"),
  express: "5",
  fastify: "5",
  "@nestjs/common": "11",
  "@nestjs/core": "11",
  "@nestjs/platform-express": "11",
  "reflect-metadata": "0.2",
  rxjs: "7",
  tsx: asHere("tsx"),
  typescript: asHere("typescript"),
  "@types/express": "5",
  "@types/node": asHere("@types/node"),
};

const tsconfig = {
  compilerOptions: {
    strict: true,
    target: "es2023",
    lib: ["es2023", "dom"],
    module: "nodenext",
    moduleDetection: "force",
    allowImportingTsExtensions: true,
    experimentalDecorators: true,
    noEmit: true,
    skipLibCheck: true,
    types: ["node"],
  },
  include: ["*.ts", "app"],
};

/** Milliseconds until a server has to answer, also with a low priority beside tests that keep every core busy. */
const longestStart = 120_000;

/**
 * @param {string} cwd where the packages are installed
 * @param {string} url the database
 */
export async function checkFrameworks(cwd, url) {
  const page = readFileSync(join(cwd, "node_modules/dbq-ts/docs/frameworks.md"), "utf8");
  const blocks = page.matchAll(/^```[jt]s\n\/\/ (\S+)\n([\s\S]*?)^```$/gm);
  const files = Object.fromEntries(Array.from(blocks, ([, name = "", text = ""]) => [name, text]));
  write(cwd, { ...files, "tsconfig.json": JSON.stringify(tsconfig) });
  await run({ cwd }, process.execPath, "node_modules/typescript/bin/tsc", "-p", ".");
  const env = { DBQ_URL: url };
  const worker = new Program(
    { cwd, env },
    process.execPath,
    "--import",
    "tsx",
    "node_modules/dbq-ts/bin.js",
    "worker",
    "tasks.ts",
  );
  const ids = [];
  for (const name of Object.keys(files).filter((name) => /^(hono|express|fastify|nest)\.ts$/.test(name)))
    ids.push(await taskOf(name, cwd, env));
  if (ids.length !== 4) throw new Error(`the page has the servers ${Object.keys(files).join(", ")}`);
  ids.push(await taskOfScript(cwd, env));
  for (const id of ids) await worker.said(new RegExp(`completed +#${id} send-receipt`));
  await worker.stop();
}

/**
 * Starts a server, and sends it a request that enqueues.
 * @param {string} name
 * @param {string} cwd
 * @param {Record<string, string>} env
 * @returns {Promise<unknown>} the id of the task
 */
async function taskOf(name, cwd, env) {
  const port = String(await freePort());
  const server = new Program({ cwd, env: { ...env, PORT: port } }, process.execPath, "--import", "tsx", name);
  try {
    const answer = await answerOf(name, `http://127.0.0.1:${port}/orders/7/receipt`, server);
    const text = await answer.text();
    if (answer.status !== 202) throw new Error(`${name} answered ${answer.status} ${text}\n${server.output}`);
    return JSON.parse(text).taskId;
  } finally {
    await server.stop();
  }
}

/**
 * @param {string} name
 * @param {string} url
 * @param {Program} server
 */
async function answerOf(name, url, server) {
  const end = Date.now() + longestStart;
  for (;;) {
    const answer = await fetch(url, { method: "POST" }).catch(() => undefined);
    if (answer !== undefined) return answer;
    if (Date.now() > end || server.child.exitCode !== null)
      throw new Error(`${name} gave no answer; it printed:\n${server.output}`);
    await sleep(100);
  }
}

/**
 * @param {string} cwd
 * @param {Record<string, string>} env
 */
async function taskOfScript(cwd, env) {
  const printed = await run({ cwd, env }, process.execPath, "receipts.cjs");
  return /^task (\d+)$/m.exec(printed)?.[1];
}
