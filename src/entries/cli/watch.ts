/**
 * `dbq worker --watch`: runs the same command in a child process, and again whenever a module that it has imported changes.
 * Not by `node --watch`, which on Linux misses all changes of a file after the first save by rename (as of Node 20, 22, 24).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { statSync } from "node:fs";
import { isAbsolute, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { jsonNote, note } from "./output.ts";
import { longestTimer } from "./parse.ts";

export interface ShutdownOptions {
  /** Milliseconds that running tasks get to finish after the first signal. */
  grace: number;
  json?: true;
}

/** The signals that stop a worker. */
export const signals = ["SIGTERM", "SIGINT"] as const;

/** Set for a command that another one watches. */
const variable = "DBQ_WATCH";

/**
 * Makes Node tell the parent process of each module that it loads. It is what `node --watch` sets for its own child. On a
 * Node without it, only the modules that the command names would be watched.
 */
const reporting = "WATCH_REPORT_DEPENDENCIES";

/**
 * Whether another command watches this one. Then a Ctrl-C comes twice: from the terminal, and from the process above, which
 * passes it on.
 */
export const isWatched: boolean = process.env[variable] !== undefined;

/** Milliseconds between two looks at the files. A look at the path sees what a watch of the file would miss: a new file there. */
const lookEvery = 200;

/** Milliseconds by which the time of a change may lie before the change: file systems take the time of the last tick. */
const tick = 20;

/** Milliseconds without a change until the worker starts again: a checkout changes many files. */
const quietMs = 100;

/** Milliseconds after the grace until a worker is killed that does not stop: a function in an endless loop blocks signals. */
const killAfter = 5_000;

/**
 * Runs this command again, without watching, until a signal ends it. A restart sends SIGTERM, so that tasks get the grace.
 * @param files the modules that the command names
 */
export async function watch(files: readonly string[], options: ShutdownOptions): Promise<void> {
  process.exitCode = await new Promise<number>((resolve) => {
    const watcher = new Watcher(options, resolve);
    for (const file of files) watcher.add(file);
    for (const signal of signals) process.on(signal, () => watcher.stop(signal));
    watcher.start();
  });
}

class Watcher {
  readonly #options: ShutdownOptions;
  readonly #end: (exitCode: number) => void;
  /**
   * All that were imported once, and how each was at the last look: the repair of a file must be seen also when its last
   * import has failed.
   */
  readonly #files = new Map<string, Version>();
  readonly #looks = setInterval(() => this.#look(), lookEvery);
  /** When the child was started, in milliseconds since 1970. */
  #startedAt = Number.POSITIVE_INFINITY;
  #child: ChildProcess | undefined;
  #quiet: NodeJS.Timeout | undefined;
  #kill: NodeJS.Timeout | undefined;
  /** The child has been told to end: the next one reads the newest files. */
  #isRestarting = false;
  #isStopping = false;

  constructor(options: ShutdownOptions, end: (exitCode: number) => void) {
    this.#options = options;
    this.#end = end;
  }

  start(): void {
    this.#isRestarting = false;
    this.#startedAt = Date.now();
    this.#child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
      stdio: ["inherit", "inherit", "inherit", "ipc"],
      env: { ...process.env, [variable]: "1", [reporting]: "1" },
    });
    this.#child.on("message", (message) => {
      for (const file of filesIn(message)) this.add(file);
    });
    this.#child.once("close", (code, signal) => this.#onClose(code ?? (isStop(signal) ? 0 : 1)));
  }

  /** Passes the signal on, and ends with the exit code of the child. */
  stop(signal: NodeJS.Signals): void {
    this.#isStopping = true;
    if (this.#child) this.#send(this.#child, signal);
    else this.#finish(0);
  }

  /** A file that has changed since the child started may have been imported before: then the child runs its old code. */
  add(file: string): void {
    if (this.#files.has(file) || file.includes(`${sep}node_modules${sep}`)) return;
    const version = versionOf(file);
    this.#files.set(file, version);
    if (version !== undefined && version.changedAt >= this.#startedAt - tick) this.#onChange(file);
  }

  /** A deleted file is no change: some editors delete a file and write it anew. It is one when the file is back. */
  #look(): void {
    for (const [file, before] of this.#files) {
      const now = versionOf(file);
      if (now === undefined || (now.changedAt === before?.changedAt && now.inode === before.inode)) continue;
      this.#files.set(file, now);
      this.#onChange(file);
    }
  }

  #finish(exitCode: number): void {
    clearInterval(this.#looks);
    clearTimeout(this.#quiet);
    this.#end(exitCode);
  }

  #onChange(file: string): void {
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => this.#restart(file), quietMs);
  }

  #restart(file: string): void {
    if (this.#isRestarting || this.#isStopping) return;
    this.#note("restarting", `${relative("", file)} has changed: starting again`);
    this.#isRestarting = true;
    if (this.#child) this.#send(this.#child, "SIGTERM");
    else this.start();
  }

  #send(child: ChildProcess, signal: NodeJS.Signals): void {
    child.kill(signal);
    const limit = this.#options.grace + killAfter;
    this.#kill ??= setTimeout(
      () => {
        this.#note("killing", "the worker does not stop: it is killed, and another worker rescues its tasks");
        child.kill("SIGKILL");
      },
      Math.min(limit, longestTimer),
    );
  }

  #onClose(exitCode: number): void {
    this.#child = undefined;
    clearTimeout(this.#kill);
    this.#kill = undefined;
    if (this.#isStopping) this.#finish(exitCode);
    else if (this.#isRestarting) this.start();
    else this.#note("waiting", "the worker has ended: it starts again when a module changes");
  }

  #note(event: string, message: string): void {
    if (this.#options.json) jsonNote({ time: new Date(), event, message });
    else note(message);
  }
}

/** Whether a signal that stops workers has ended the child: it came before the child listened for signals. */
function isStop(signal: NodeJS.Signals | null): boolean {
  return signals.some((each) => each === signal);
}

/** A file as one look found it; undefined if there was none. */
type Version = { readonly changedAt: number; readonly inode: number } | undefined;

function versionOf(file: string): Version {
  try {
    const found = statSync(file, { throwIfNoEntry: false });
    return found && { changedAt: found.ctimeMs, inode: found.ino };
  } catch {
    // A folder on the path is gone, or may not be read: so is the file.
    return undefined;
  }
}

/** What Node reports: URLs of imported modules, paths of required ones. It reports built-in modules, too. */
function filesIn(message: unknown): string[] {
  const reported = (message ?? {}) as { "watch:import"?: unknown; "watch:require"?: unknown };
  const all = [reported["watch:import"], reported["watch:require"]].flat();
  return all
    .filter((name) => typeof name === "string")
    .map((name) => (name.startsWith("file:") ? fileURLToPath(name) : name))
    .filter((name) => isAbsolute(name));
}
