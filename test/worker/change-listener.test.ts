/** A worker listens for changes while it is idle, and misses none by pausing while it is busy. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ChangeListener } from "../../src/worker/change-listener.ts";
import "../support/fakeable-timers.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

function ears() {
  const told = { changes: 0, watches: 0, open: 0 };
  const watch = () => {
    told.watches += 1;
    told.open += 1;
    return () => {
      told.open -= 1;
    };
  };
  const made = new ChangeListener(watch, () => {
    told.changes += 1;
  });
  return { told, ears: made };
}

/** Claims that leave tasks behind, one each millisecond. */
function workFor(ms: number, worker: ChangeListener): void {
  for (let i = 0; i < ms; i += 1) {
    worker.busy();
    vi.advanceTimersByTime(1);
  }
}

test("a worker goes on listening during a short burst", () => {
  const { told, ears: worker } = ears();
  worker.listen();
  workFor(15, worker);
  worker.idle();
  workFor(15, worker);
  expect(told).toEqual({ changes: 0, watches: 1, open: 1 });
});

test("a worker that stays busy stops listening, and checks for due tasks ten times a second", () => {
  const { told, ears: worker } = ears();
  worker.listen();
  workFor(1_020, worker);
  expect(told.open).toBe(0);
  expect(told.changes).toBe(10);
});

test("an idle worker listens again, and checks once for changes that it missed", () => {
  const { told, ears: worker } = ears();
  worker.listen();
  workFor(30, worker);
  const before = told.changes;
  worker.idle();
  worker.idle();
  expect(told).toEqual({ changes: before + 1, watches: 2, open: 1 });
});

test("a closed listener never listens again", () => {
  const { told, ears: worker } = ears();
  worker.listen();
  worker.close();
  worker.idle();
  workFor(50, worker);
  worker.idle();
  expect(told).toMatchObject({ watches: 1, open: 0 });
});
