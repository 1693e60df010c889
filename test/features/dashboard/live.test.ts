import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { Live } from "../../../src/features/dashboard/live.ts";
import { openDesk } from "./requests.ts";

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

test("after a round that took long the next one begins after four intervals", async () => {
  const interval = 30;
  const live = new Live(interval, 100, failing);
  let ended = 0;
  const rests: number[] = [];
  const render = async () => {
    if (ended > 0) rests.push(performance.now() - ended);
    await sleep(15);
    ended = performance.now();
    return `page ${rests.length}`;
  };
  const reader = open(live, "/", render);
  for (let pages = 0; pages < 4; pages += 1) await pageOf(reader);
  live.close();
  // A timer may fire a millisecond early.
  expect(Math.min(...rests)).toBeGreaterThanOrEqual(4 * interval - 2);
});

const page = async () => "a page";

/** Opens a stream; undefined: it was refused. `ended` tells whether the stream was ended. */
function place(live: Live, key: string, reader: string | null = null) {
  const stream = live.open(key, page, new AbortController().signal, reader);
  if (!stream) return undefined;
  const reading = stream.getReader();
  let ended = false;
  reading.closed.then(() => {
    ended = true;
  });
  // A stream that is closed ends when all of it is read.
  const read = async (): Promise<void> => {
    if (!(await reading.read()).done) await read();
  };
  void read();
  return { isEnded: () => ended };
}

const endedOf = async (places: readonly ReturnType<typeof place>[]) => {
  await sleep(0);
  return places.map((each) => each?.isEnded());
};

test("a reader who has all pages loses the oldest to a reader who has none, and cannot take it back", async () => {
  const live = new Live(60_000, 100, failing);
  const ann = place(live, "ann's", "ann");
  const eve = Array.from({ length: 60 }, (_, n) => place(live, `eve's ${n}`, "eve"));
  expect(eve.filter((each) => each !== undefined)).toHaveLength(49);
  const bob = place(live, "bob's", "bob");
  expect(bob).toBeDefined();
  expect(place(live, "eve's 0", "eve")).toBeUndefined();
  expect(await endedOf([ann, bob, ...eve.slice(0, 49)])).toEqual([
    ...[false, false, true],
    ...Array(48).fill(false),
  ]);
  // Who looks at the same page as another needs no place of its own.
  expect(place(live, "ann's", "eve")).toBeDefined();
  live.close();
});

test("a reader who has all streams loses the oldest to a reader who has none, and cannot take it back", async () => {
  const live = new Live(60_000, 5, failing);
  const ann = place(live, "/", "ann");
  const eve = Array.from({ length: 10 }, () => place(live, "/", "eve"));
  expect(eve.filter((each) => each !== undefined)).toHaveLength(4);
  const bob = place(live, "/", "bob");
  expect(place(live, "/", "eve")).toBeUndefined();
  expect(await endedOf([ann, bob, ...eve.slice(0, 4)])).toEqual([false, false, true, false, false, false]);
  expect(live.clients).toBe(5);
  live.close();
});

test("of readers without a name, the oldest page at which the fewest look is given away after 30 s", async () => {
  const now = performance.now();
  const clock = vi.spyOn(performance, "now").mockReturnValue(now);
  const live = new Live(60_000, 100, failing);
  const many = [place(live, "/"), place(live, "/")];
  const others = Array.from({ length: 49 }, (_, n) => place(live, `/tasks?q=${n}`));
  expect(place(live, "/late")).toBeUndefined();
  clock.mockReturnValue(now + 29_000);
  expect(place(live, "/late")).toBeUndefined();
  clock.mockReturnValue(now + 31_000);
  expect(place(live, "/late")).toBeDefined();
  clock.mockRestore();
  expect(await endedOf([...many, ...others])).toEqual([false, false, true, ...Array(48).fill(false)]);
  live.close();
});

test("a reader who opens live pages without an end locks out nobody else", async () => {
  const { ui, errors } = await openDesk({
    pollInterval: 250,
    authorize: ({ headers }) => ({ allow: "read", actor: headers.get("x-user") ?? "" }),
  });
  const follow = (of: string, user: string) =>
    ui(new Request(`http://localhost/events?of=${encodeURIComponent(of)}`, { headers: { "x-user": user } }));
  const statuses: number[] = [];
  for (let n = 0; n < 60; n += 1) statuses.push((await follow(`/tasks?q=${n}`, "eve")).status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(50);
  const ann = await follow("/queues", "ann");
  expect(ann.status).toBe(200);
  for (let n = 60; n < 70; n += 1) expect((await follow(`/tasks?q=${n}`, "eve")).status).toBe(503);
  const stream = (ann.body as ReadableStream<Uint8Array>).getReader();
  expect(new TextDecoder().decode(await pageOf(stream))).toContain("Queues");
  expect(errors).toEqual([]);
});
