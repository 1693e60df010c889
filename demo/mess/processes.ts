/** The worker processes of the mess: one is stopped by SIGSTOP, one ends again and again, and one works. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { extname, join } from "node:path";
import { stopped } from "../stopped.ts";
import type { Role } from "./worker.ts";

// The tests run what `tsc` has compiled of the demo.
const program = join(import.meta.dirname, `worker${extname(import.meta.filename)}`);

/** Crashes after which the function has killed enough workers. */
const mostRestarts = 500;

/** Milliseconds that a later attempt takes until it ends its process: a worker needs a second to start. */
const longestVideo = 20_000;

export class MessProcesses {
  readonly #database: string;
  readonly #children = new Set<ChildProcess>();
  #frozen: ChildProcess | undefined;
  #stopping = false;

  constructor(database: string) {
    this.#database = database;
  }

  /** Resolves with the id of its first worker, when all of its workers run. @throws when it ends before */
  async start(role: Role): Promise<{ child: ChildProcess; workerId: string }> {
    const child = this.#fork(role);
    const failure = once(child, "exit").then(([code, signal]) => {
      throw new Error(`the ${role} worker ended with ${signal ?? `exit code ${code}`} before it was ready`);
    });
    failure.catch(() => undefined);
    const [workerId] = (await Promise.race([once(child, "message"), failure])) as [string];
    return { child, workerId };
  }

  /** Resolves when so many workers have died; then there is one at a time, which dies after a while. */
  async startDying(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => once(this.#fork("video"), "exit")));
    void this.#keepDying();
  }

  /** A stopped process has its connections and its tasks, and sends no heartbeat. */
  freeze(child: ChildProcess, guard: ChildProcess): void {
    this.#frozen = child;
    child.kill("SIGSTOP");
    guard.send(child.pid ?? 0);
  }

  /** Resolves when all processes have ended. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#frozen?.kill("SIGKILL");
    await Promise.all([...this.#children].map(stopped));
  }

  async #keepDying(): Promise<void> {
    for (let n = 0; n < mostRestarts && !this.#stopping; n += 1)
      await once(this.#fork("video", longestVideo), "exit");
  }

  #fork(role: Role, videoMs = 0): ChildProcess {
    // Every user of the machine can read a process's arguments. Only its own user can read its environment.
    const env = { ...process.env, DBQ_URL: this.#database, DBQ_MESS_VIDEO_MS: String(videoMs) };
    const child = fork(program, [role], { env, stdio: ["ignore", "ignore", 2, "ipc"] });
    this.#children.add(child);
    child.once("exit", () => this.#children.delete(child));
    return child;
  }
}
