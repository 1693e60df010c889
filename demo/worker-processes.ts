/** Starts the worker processes, replaces one that dies, and stops them all. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { extname, join } from "node:path";
import { stopped } from "./stopped.ts";

// The tests run what `tsc` has compiled of the demo.
const program = join(import.meta.dirname, `worker${extname(import.meta.filename)}`);

/** A service manager would replace a worker that dies. After so many deaths the fault is not accidental. */
const mostReplacements = 20;

export class WorkerProcesses {
  readonly #site: string;
  readonly #database: string;
  /** By worker id. */
  readonly #members = new Map<string, ChildProcess>();
  readonly #children = new Set<ChildProcess>();
  /** Called when dead workers can no longer be replaced. */
  readonly #onBroken: (error: Error) => void;
  #replaced = 0;
  #stopping = false;

  constructor(site: string, database: string, onBroken: (error: Error) => void) {
    this.#site = site;
    this.#database = database;
    this.#onBroken = onBroken;
  }

  /** Resolves when `size` workers are running. @throws when a worker ends before */
  async start(size: number): Promise<void> {
    await Promise.all(Array.from({ length: size }, () => this.#add()));
  }

  has(workerId: string): boolean {
    return this.#members.has(workerId);
  }

  /** Kills a worker's process by SIGKILL, which it cannot handle. */
  kill(workerId: string): void {
    this.#members.get(workerId)?.kill("SIGKILL");
  }

  /** Resolves when all processes have ended. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all([...this.#children].map(stopped));
  }

  async #add(): Promise<void> {
    // Every user of the machine can read a process's arguments. Only its own user can read its environment.
    const env = { ...process.env, DBQ_URL: this.#database };
    // Standard output is for the summary alone.
    const child = fork(program, [this.#site], { env, stdio: ["ignore", 2, 2, "ipc"] });
    this.#children.add(child);
    const exit = once(child, "exit").then(([code, signal]) => {
      this.#children.delete(child);
      return `a worker process ended with ${signal ?? `exit code ${code}`}`;
    });
    const failure = exit.then((how) => Promise.reject(new Error(`${how} before it was ready`)));
    const [workerId] = (await Promise.race([once(child, "message"), failure])) as [string];
    this.#members.set(workerId, child);
    failure.catch(() => this.#lost(workerId));
  }

  #lost(workerId: string): void {
    this.#members.delete(workerId);
    if (this.#stopping) return;
    this.#replaced += 1;
    if (this.#replaced > mostReplacements) this.#onBroken(new Error("the worker processes keep dying"));
    else this.#add().catch((error) => this.#stopping || this.#onBroken(error));
  }
}
