/** The store of a model's tests, and the clock that they set. */
import { afterAll, beforeAll, vi } from "vitest";
import type { RealStore } from "./real-store.ts";
import "../support/fakeable-timers.ts";

/** Where the clock stands when a sequence of commands begins, in milliseconds since 1970. */
const start = Date.UTC(2026, 0, 1);

/** Opens the store before the tests of a file, and closes it after them. The result empties it and sets the clock back. */
export function realWithClock(open: () => Promise<RealStore>): () => Promise<RealStore> {
  let real: RealStore | undefined;
  beforeAll(async () => {
    // By the real time: names on a server contain their time of creation, and other runs remove old ones.
    real = await open();
    // A store keeps some things for a second. By the faked clock, which stands still, it would keep them for the whole
    // sequence.
    vi.useFakeTimers({ toFake: ["Date", "performance"], now: start });
  });
  afterAll(async () => {
    await real?.close();
    vi.useRealTimers();
  });
  return async () => {
    if (real === undefined) throw new Error("the store is opened before the tests");
    vi.setSystemTime(start);
    await real.wipe();
    await real.setClock();
    return real;
  };
}
