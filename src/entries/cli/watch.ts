/** `dbq worker --watch`: the same command under `node --watch`, which starts it again when a module that it has imported changes. */
import { spawn } from "node:child_process";
import { once } from "node:events";

/** The signals that stop a worker. */
export const signals = ["SIGTERM", "SIGINT"] as const;

/** Set for a command that `node --watch` runs. */
const variable = "DBQ_WATCH";

/**
 * Whether `node --watch` runs this command. Then a Ctrl-C comes several times: from the terminal, and from each of the
 * processes above that pass it on.
 */
export const isWatched: boolean = process.env[variable] !== undefined;

/**
 * Runs this command again under `node --watch`, until a signal ends it. A restart sends SIGTERM, so that tasks get the grace.
 * @param db the database: `node --watch` prints the arguments, so a password must not be among them
 */
export async function watch(db: string): Promise<void> {
  const [, script = "", ...args] = process.argv;
  const watching = ["--watch", "--watch-preserve-output"];
  const child = spawn(process.execPath, [...watching, ...process.execArgv, script, ...withoutWatch(args)], {
    stdio: "inherit",
    env: { ...process.env, DBQ_URL: db, [variable]: "1" },
  });
  for (const signal of signals) process.on(signal, () => child.kill(signal));
  const [code] = (await once(child, "close")) as [number | null];
  process.exitCode = code ?? 1;
}

/** The arguments without `--watch` and `--db`. */
function withoutWatch(args: readonly string[]): string[] {
  return args.filter(
    (arg, i) => arg !== "--watch" && arg !== "--db" && args[i - 1] !== "--db" && !arg.startsWith("--db="),
  );
}
