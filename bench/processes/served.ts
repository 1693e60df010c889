/** What a measured program has in common with the others: it gets its config, answers commands, and outlives nobody. */

/** What a program can be asked. */
// biome-ignore lint/suspicious/noExplicitAny: each program has its own parameters; `Child` passes them on by name.
export type Commands = Record<string, (...args: any[]) => unknown>;

export interface Question {
  id: number;
  command: string;
  args: unknown[];
}

/** To the question `id`; 0: the program is ready. */
export interface Answer {
  id: number;
  value?: unknown;
  error?: string;
}

export function configOf<T>(): T {
  return JSON.parse(process.argv[2] ?? "{}") as T;
}

/** From now on the program answers, until whoever started it ends it, or ends itself. */
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
