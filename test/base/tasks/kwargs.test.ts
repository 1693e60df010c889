/** Keyword arguments are the function's last argument, with any number of arguments before them. */
import { expect, it } from "vitest";
import { task } from "../../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";

const received = (...args: unknown[]) => args.map((arg) => (arg === undefined ? "nothing" : arg));
const plain = task(uniqueName(), (path: string, options: { quality: number }) => received(path, options));
const optional = task(uniqueName(), (path: string, width?: number, options?: { quality: number }) =>
  received(path, width, options),
);

it.each([
  ["all arguments", plain.with({ kwargs: { quality: 80 } }), ["a.png"], ["a.png", { quality: 80 }]],
  [
    "all arguments, optional ones too",
    optional.with({ kwargs: { quality: 80 } }),
    ["a.png", 320],
    ["a.png", 320, { quality: 80 }],
  ],
  [
    "an optional one left out",
    optional.with({ kwargs: { quality: 80 } }),
    ["a.png"],
    ["a.png", "nothing", { quality: 80 }],
  ],
  [
    "an optional one undefined",
    optional.with({ kwargs: { quality: 80 } }),
    ["a.png", undefined],
    ["a.png", "nothing", { quality: 80 }],
  ],
  ["empty kwargs", plain.with({ kwargs: {} as never }), ["a.png"], ["a.png", "nothing"]],
])("kwargs are the last argument with %s", async (_, fn, args, expected) => {
  const queue = await temporaryQueue({}, ":memory:");
  await startedWorker(queue);
  const id = await queue.enqueueTask(fn as (...args: unknown[]) => unknown[], ...args);
  expect(await queue.awaitTaskResult(id)).toEqual(expected);
});
