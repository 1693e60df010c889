import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/queue.ts";
import { program } from "./program.ts";

const file = fileURLToPath(new URL("../../examples/ten-tasks.ts", import.meta.url));
const tsconfig = fileURLToPath(new URL("../../examples/tsconfig.json", import.meta.url));

/** Runs the example and checks every result. @returns the seconds that the example reports */
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

// The ideal is two rounds of one second each. A busy machine may need another try; a queue that polls, or pauses between
// tasks, fails all three.
test("ten tasks of a second each at concurrency 5 take under 2.5 s", { timeout: 60_000 }, async () => {
  const times: number[] = [];
  do times.push(await run());
  while (times.length < 3 && !(Math.min(...times) < 2.5));
  expect(Math.min(...times), `seconds: ${times.join(", ")}`).toBeLessThan(2.5);
  // A shorter time means that more than five tasks ran at once.
  expect(Math.min(...times), `seconds: ${times.join(", ")}`).toBeGreaterThan(1.9);
});
