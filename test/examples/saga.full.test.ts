/** A saga that fails or is cancelled is undone, in spite of the kills of its processes. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/queue.ts";
import { program } from "./program.ts";

const file = fileURLToPath(new URL("../../examples/saga.ts", import.meta.url));
const tsconfig = fileURLToPath(new URL("../../examples/tsconfig.json", import.meta.url));

test("each step of an order that fails or is cancelled is undone once, and none of another one", {
  timeout: 120_000,
}, async () => {
  const example = program(file, { cwd: temporaryFolder(), tsconfig, env: { ORDERS: "12", KILLS: "6" } });
  const { code } = await example.ended;
  expect({ code, output: example.output() }).toEqual({
    code: 0,
    output: [
      "6 kills",
      "12 of 12 orders ended",
      "12 with each step once, and undone once if the order failed",
      "no undo failed",
      "",
    ].join("\n"),
  });
});
