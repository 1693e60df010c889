import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/queue.ts";
import { program } from "./program.ts";

const file = fileURLToPath(new URL("../../examples/ten-tasks.ts", import.meta.url));
const tsconfig = fileURLToPath(new URL("../../examples/tsconfig.json", import.meta.url));

/** Seconds that the ten tasks took, by their own account; every result must be there. */
async function run(): Promise<number> {
  const example = program(file, { cwd: temporaryFolder(), tsconfig });
  const { code } = await example.ended;
  expect({ code, output: example.output() }).toMatchObject({ code: 0 });
  for (let n = 0; n < 10; n += 1) {
    expect(example.output()).toContain(`task ${n}: ${n} + ${n * n} = ${n + n * n}\n`);
  }
  const seconds = /10 tasks of 1 s in ([\d.]+) s/.exec(example.output())?.[1];
  return Number(seconds);
}

// Two rounds of one second each are the ideal. A machine that is busy with something else may need another try; a queue
// that polls, or that waits between tasks, fails them all.
test("ten tasks of a second each at concurrency 5 take under 2.5 s", { timeout: 60_000 }, async () => {
  const times: number[] = [];
  do times.push(await run());
  while (times.length < 3 && !(Math.min(...times) < 2.5));
  expect(Math.min(...times), `seconds: ${times.join(", ")}`).toBeLessThan(2.5);
  // Faster than two rounds: more than five ran at once.
  expect(Math.min(...times), `seconds: ${times.join(", ")}`).toBeGreaterThan(1.9);
});
