/**
 * Runs commands in the process of the tests: a process takes 0.3 s of a core for each. For commands that end by themselves and
 * need no module, signal or terminal of their own. That `main.ts` runs them in a process is shown by usage.test.ts.
 */
import { run } from "../../../src/entries/cli/run.ts";
import { cleanEnv, type Ended } from "./dbq.ts";

/** One after the other, since they change the folder and the variables of this process. */
let last: Promise<unknown> = Promise.resolve();

/** Runs a command in `folder` to its end. */
export function dbq(folder: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  const ended = last.then(() => runIn(folder, args, env));
  last = ended.catch(() => undefined);
  return ended;
}

/** Runs a command that must succeed, and parses the JSON that it prints. */
export async function dbqJson<T>(folder: string, args: readonly string[]): Promise<T> {
  const { code, out, err } = await dbq(folder, [...args, "--json"]);
  if (code !== 0) throw new Error(`dbq ${args.join(" ")}: exit code ${code}: ${err}`);
  return JSON.parse(out) as T;
}

async function runIn(folder: string, args: readonly string[], more: NodeJS.ProcessEnv): Promise<Ended> {
  const { exitCode } = process;
  const [cwd, env] = [process.cwd(), process.env];
  const [out, err] = [captured(process.stdout), captured(process.stderr)];
  try {
    process.chdir(folder);
    process.env = cleanEnv(more);
    process.exitCode = undefined;
    const code = await run([...args]);
    return { code, signal: null, out: out.text(), err: err.text() };
  } finally {
    for (const { restore } of [out, err]) restore();
    process.chdir(cwd);
    process.env = env;
    process.exitCode = exitCode;
  }
}

/** Keeps what is written to a stream of this process, instead of writing it. */
function captured(stream: NodeJS.WriteStream): { text: () => string; restore: () => void } {
  const { write } = stream;
  let all = "";
  stream.write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
    all += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
    const done = rest.at(-1);
    if (typeof done === "function") done();
    return true;
  };
  return {
    text: () => all,
    restore: () => {
      stream.write = write;
    },
  };
}
