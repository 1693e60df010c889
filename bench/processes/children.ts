/** The benchmark's side of `served.ts`: starts programs as separate processes, and sends them commands. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { basename } from "node:path";
import type { Answer, Commands, Question } from "./served.ts";

/** A running program that answers the commands `C`. */
export interface Child<C extends Commands> {
  readonly pid: number;
  ask<K extends keyof C & string>(command: K, ...args: Parameters<C[K]>): Promise<Awaited<ReturnType<C[K]>>>;
}

/** Starts a program; resolves when it accepts commands. */
export type Start = <C extends Commands>(program: string, config: unknown) => Promise<Child<C>>;

/** All programs that `use` has started are ended with it. */
export async function withChildren<T>(use: (start: Start) => Promise<T>): Promise<T> {
  const running: ForkedChild[] = [];
  try {
    return await use(async (program, config) => {
      const child = new ForkedChild(program, config);
      running.push(child);
      await child.ready;
      return child as unknown as Child<never>;
    });
  } finally {
    await Promise.all(running.map((child) => child.end()));
  }
}

interface Asked {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

class ForkedChild {
  readonly ready: Promise<unknown>;
  readonly #process: ChildProcess;
  readonly #asked = new Map<number, Asked>();
  #questions = 0;
  #ended: Error | undefined;

  constructor(program: string, config: unknown) {
    // Plain node, whatever the benchmark itself runs under. "advanced" serialisation keeps typed arrays.
    this.#process = fork(program, [JSON.stringify(config)], { execArgv: [], serialization: "advanced" });
    this.#process.on("message", (answer: Answer) => this.#take(answer));
    this.#process.on("error", (error) => this.#fail(error));
    this.#process.on("exit", (code, signal) => {
      this.#fail(new Error(`${basename(program)} ended too early: ${signal ?? `code ${code}`}`));
    });
    this.ready = this.#promise(0);
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  ask(command: string, ...args: unknown[]): Promise<unknown> {
    this.#questions += 1;
    const id = this.#questions;
    const answer = this.#promise(id);
    const question: Question = { id, command, args };
    if (this.#ended === undefined) this.#process.send(question);
    return answer;
  }

  /** Kills the process: everything it had to report was asked before. */
  async end(): Promise<void> {
    if (this.#ended !== undefined) return;
    const exit = once(this.#process, "exit");
    this.#process.kill("SIGKILL");
    await exit;
  }

  #promise(id: number): Promise<unknown> {
    const answer = new Promise((resolve, reject) => this.#asked.set(id, { resolve, reject }));
    // The caller may fail for another reason before this one rejects.
    answer.catch(() => undefined);
    if (this.#ended !== undefined) this.#fail(this.#ended);
    return answer;
  }

  #take({ id, value, error }: Answer): void {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    if (error === undefined) asked?.resolve(value);
    else asked?.reject(new Error(error));
  }

  #fail(error: Error): void {
    this.#ended ??= error;
    for (const { reject } of this.#asked.values()) reject(error);
    this.#asked.clear();
  }
}
