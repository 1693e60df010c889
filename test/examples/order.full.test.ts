/** A saga of steps, waits and children survives the kills of its workers. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/queue.ts";
import { program } from "./program.ts";

const file = fileURLToPath(new URL("../../examples/order.ts", import.meta.url));
const tsconfig = fileURLToPath(new URL("../../examples/tsconfig.json", import.meta.url));

test("each order is charged once and booked once, however often its worker is killed", {
  timeout: 120_000,
}, async () => {
  const example = program(file, { cwd: temporaryFolder(), tsconfig, env: { ORDERS: "8", KILLS: "5" } });
  const { code } = await example.ended;
  expect({ code, output: example.output() }).toEqual({
    code: 0,
    output: [
      "5 kills",
      "8 of 8 orders completed",
      "8 of 8 charged once",
      "8 of 8 booked once",
      "16 parts packed",
      "order-1: tea of order-1, cake of order-1, approved by Eva",
      "",
    ].join("\n"),
  });
});
