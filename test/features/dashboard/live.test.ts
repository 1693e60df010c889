import { expect, test } from "vitest";
import { Live } from "../../../src/features/dashboard/live.ts";

const failing = (error: unknown) => {
  throw error;
};

function open(
  live: Live,
  key: string,
  render: () => Promise<string>,
): ReadableStreamDefaultReader<Uint8Array> {
  const stream = live.open(key, render, new AbortController().signal);
  if (!stream) throw new Error("the stream was refused");
  return stream.getReader();
}

async function pageOf(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array> {
  for (;;) {
    const { value } = await reader.read();
    if (!value) throw new Error("the stream has ended");
    if (new TextDecoder().decode(value).startsWith("event: page")) return value;
  }
}

test("ten clients of one page share one rendering and its bytes", async () => {
  const live = new Live(1, 100, failing);
  let renders = 0;
  const render = async () => `page ${++renders}`;
  const readers = Array.from({ length: 10 }, () => open(live, "/", render));
  const pages = await Promise.all(readers.map(pageOf));
  expect(new Set(pages).size).toBe(1);
  expect(new TextDecoder().decode(pages[0])).toContain("page 1");
  live.close();
});
