import { afterEach, expect, test, vi } from "vitest";
import { useGlobalTimers } from "../../../src/base/runtime/timers.ts";
import { Live } from "../../../src/features/dashboard/live.ts";

useGlobalTimers();
afterEach(() => void vi.useRealTimers());

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

test("after a slow round, the next one comes later: live updates take at most a fiftieth of the time", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const live = new Live(2_000, 100, failing);
  const times: number[] = [];
  const render = async () => {
    times.push(performance.now());
    vi.advanceTimersByTime(100);
    return String(times.length);
  };
  open(live, "/", render);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(times).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(4_990);
  expect(times).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(20);
  expect(times).toHaveLength(2);
  live.close();
});
