/** Runs many points, several at a time, and reports those that the queue did not survive. */
import { inspect } from "node:util";

export function chunks<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );
}

/** The wanted number of items, spread evenly. */
export function evenly<T>(
  all: readonly T[],
  { amount, random }: { amount: number; random: () => number },
): T[] {
  if (amount >= all.length) return [...all];
  const [step, first] = [all.length / amount, random()];
  return Array.from({ length: amount }, (_, i) => all[Math.floor((i + first) * step)] as T);
}

/** Runs `act` on all items, in this many lanes; `act` gets the number of its lane. */
export async function inLanes<T, R>(
  lanes: number,
  items: readonly T[],
  act: (item: T, lane: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const goOn = async (lane: number) => {
    while (next < items.length) {
      const i = next++;
      results[i] = await act(items[i] as T, lane);
    }
  };
  await Promise.all(Array.from({ length: lanes }, (_, lane) => goOn(lane)));
  return results;
}

export function report(broken: readonly unknown[], killed: number): string {
  const [first, others] = [broken.slice(0, 5), broken.slice(5)];
  const lines = [
    ...first.map((error) => inspect(error)),
    ...others.map(
      (error) => `${(error as Error).message}: ${((error as Error).cause as Error).message.slice(0, 160)}`,
    ),
  ];
  return `${broken.length} of ${killed} points were not survived:\n${lines.join("\n")}`;
}
