/** The command line of the demo. */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { DbqError, openQueue } from "../src/index.ts";

export const usage = `Builds a browsable site from Markdown files, one task per file, and kills a worker
meanwhile.

Usage: npm run demo -- [folder] [options]

  folder         the folder of the Markdown files (default: node_modules of this project)
  --workers <n>  worker processes, 1 to 32 (default: 3)
  --out <dir>    a new or empty folder for the site (default: a new folder in site/)
  --db <url>     a database on a server, postgres:// or mysql:// (default: a SQLite file
                 beside the site)
  --dashboard    show the tasks in a browser: prints an address, and stays until Ctrl-C
  --json         print only the summary, as one JSON object
  --mess         make a queue with ten problems instead, and open the dashboard: find them
  --small        with --mess: 2,000 finished tasks instead of 200,000
  --answers      with --mess: print the ten problems at the beginning, not only at the end
  --help

Examples:
  npm run --silent demo -- docs --workers 4 --json
  npm run demo -- docs --db postgres://postgres:postgres@127.0.0.1/postgres
  npm run demo -- --mess

Exit code 1: a task has failed or was lost. 2: wrong usage, or no Markdown file.
`;

/** Wrong usage: exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

export interface Command {
  folder: string;
  workers: number;
  out: string | undefined;
  db: string | undefined;
  dashboard: boolean;
  json: boolean;
  mess: boolean;
  small: boolean;
  answers: boolean;
  help: boolean;
}

const project = resolve(import.meta.dirname, "..");

/** @throws UsageError */
export function readCommand(args: string[]): Command {
  const { values, positionals } = parsed(args);
  if (positionals.length > 1) throw new UsageError(`expected one folder, got ${positionals.length}`);
  const [folder] = positionals;
  checkMess(values, folder);
  return {
    folder: folder === undefined ? join(project, "node_modules") : fromHere(folder),
    workers: workersOf(values.workers ?? "3"),
    out: values.out === undefined ? undefined : fromHere(values.out),
    db: serverUrl(values.db),
    dashboard: values.dashboard ?? false,
    json: values.json ?? false,
    mess: values.mess ?? false,
    small: values.small ?? false,
    answers: values.answers ?? false,
    help: values.help ?? false,
  };
}

function parsed(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        workers: { type: "string" },
        out: { type: "string" },
        db: { type: "string" },
        dashboard: { type: "boolean" },
        json: { type: "boolean" },
        mess: { type: "boolean" },
        small: { type: "boolean" },
        answers: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** The mess has its own tasks and workers, and always its dashboard. @throws UsageError */
function checkMess(values: ReturnType<typeof parsed>["values"], folder: string | undefined): void {
  if (!values.mess) {
    for (const name of ["small", "answers"] as const)
      if (values[name]) throw new UsageError(`--${name}: it needs --mess`);
    return;
  }
  if (folder !== undefined) throw new UsageError(`--mess: it takes no folder, got ${JSON.stringify(folder)}`);
  for (const name of ["workers", "out", "json"] as const)
    if (values[name] !== undefined) throw new UsageError(`--mess: it does not take --${name}`);
}

function workersOf(text: string): number {
  const workers = Number(text);
  if (/^\d+$/.test(text) && workers >= 1 && workers <= 32) return workers;
  throw new UsageError(`--workers: expected a whole number from 1 to 32, got ${JSON.stringify(text)}`);
}

/** The error does not show the URL: it may have a password. */
function serverUrl(text: string | undefined): string | undefined {
  if (text === undefined || /^(?:postgres(?:ql)?|mysql|mariadb):\/\//i.test(text)) return text;
  throw new UsageError(
    "--db: expected the URL of a database on a server: postgres://…, mysql://… or mariadb://…",
  );
}

/** `npm run` changes to the project's folder; relative paths are relative to the user's folder. */
function fromHere(path: string): string {
  const here = process.env.npm_lifecycle_event === "demo" ? process.env.INIT_CWD : undefined;
  return resolve(here ?? ".", path);
}

/** @throws UsageError when the path is not a folder */
export async function checkFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error)
    throw new UsageError(`${folder}: ${found.code === "ENOENT" ? "there is no such folder" : found.message}`);
  if (!found.isDirectory()) throw new UsageError(`${folder}: not a folder`);
}

/** Creates the tables where they are missing. @throws UsageError when the database cannot be opened */
export async function checkDatabase(url: string): Promise<void> {
  try {
    await (await openQueue(url)).close();
  } catch (error) {
    if (error instanceof DbqError || error instanceof TypeError)
      throw new UsageError(`--db: ${error.message}`);
    throw error;
  }
}

/** Creates the folder of the site, or checks that the user's folder is empty. @throws UsageError */
export async function makeSite(out: string | undefined): Promise<string> {
  try {
    if (out === undefined) return await newFolder();
    if (existsSync(out) && (await readdir(out)).length > 0)
      throw new UsageError(`--out: ${out} is not empty: name a new folder`);
    await mkdir(out, { recursive: true });
    return out;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(
      `cannot create the folder for the site: ${(error as Error).message}; name another one with --out`,
    );
  }
}

async function newFolder(): Promise<string> {
  const sites = join(project, "site");
  await mkdir(sites, { recursive: true });
  const time = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
  return await mkdtemp(join(sites, `${time}-`));
}
