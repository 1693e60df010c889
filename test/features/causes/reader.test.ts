/** Whoever only looks sees the same causes. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import type { Queue } from "../../../src/index.ts";
import { queueOnFile } from "../../worker/setup.ts";

test("a connection that only reads finds no other causes of the database than one that writes", async () => {
  const { queue } = await queueOnFile();
  const reader = await internalsOf(queue).shared.reader();
  const of = async (one: Queue) => (await one.listCauses()).map(({ key, why }) => [key, why]);
  expect(await of(reader)).toEqual(await of(queue));
  await reader.close();
});
