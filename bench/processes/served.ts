/** What the measured programs share: each gets a configuration, answers commands, and exits with its parent process. */

/** The commands of a program. */
// biome-ignore lint/suspicious/noExplicitAny: each program has its own parameters; `Child` passes them on by name.
export type Commands = Record<string, (...args: any[]) => unknown>;

export interface Question {
  id: number;
  command: string;
  args: unknown[];
}

/** The answer to the command `id`; 0: the program is ready. */
export interface Answer {
  id: number;
  value?: unknown;
  error?: string;
}

export function configOf<T>(): T {
  return JSON.parse(process.argv[2] ?? "{}") as T;
}

/** Answers commands until the parent process or the program itself ends it. */
export function serve(commands: Commands): void {
  process.on("disconnect", () => process.exit());
  process.on("message", (question: Question) => void answer(commands, question));
  process.send?.({ id: 0 } satisfies Answer);
}

async function answer(commands: Commands, { id, command, args }: Question): Promise<void> {
  try {
    process.send?.({ id, value: await commands[command]?.(...args) } satisfies Answer);
  } catch (error) {
    process.send?.({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
}
