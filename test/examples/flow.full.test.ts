/** A parent of three children gets their results in order: one of them is retried, and one fails for good. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/queue.ts";
import { program } from "./program.ts";

const file = fileURLToPath(new URL("../../examples/flow.ts", import.meta.url));
const tsconfig = fileURLToPath(new URL("../../examples/tsconfig.json", import.meta.url));

test("a parent gets the results of its children in order, waits for a retry, and goes on without a failed one", async () => {
  const example = program(file, { cwd: temporaryFolder(), tsconfig });
  const { code } = await example.ended;
  expect({ code, output: example.output() }).toEqual({
    code: 0,
    output: [
      "May: 128 pieces, chart-May.svg, no stars",
      "sales: completed, retries: 0",
      "chart: completed, retries: 1",
      "rating: failed, retries: 0, nobody rated anything in May",
      "",
    ].join("\n"),
  });
});
