/**
 * Invariant: a worker that beats is never taken for dead, whatever the clocks do; one that is silent is, within its
 * lease; one whose process is seen to have ended is at once, one whose session is, when it has not come back.
 */
import { describe, expect, it } from "vitest";
import { thisProcess } from "../../src/base/runtime/process-identity.ts";
import type { WorkerRecord } from "../../src/store.ts";
import { FailureDetector } from "../../src/worker/failure-detector.ts";
import { Maintenance } from "../../src/worker/maintenance.ts";
import { deferred } from "../support/queue.ts";

const lease = 15_000;

/** A worker on a host that cannot be seen from here, so that its heartbeat alone decides. */
function far(change: Partial<WorkerRecord> = {}): WorkerRecord {
  return {
    id: "far",
    queueNames: ["default"],
    concurrency: 10,
    lease,
    host: "elsewhere",
    bootId: null,
    pidNamespace: null,
    pid: 1,
    processStart: null,
    startedAt: 0,
    heartbeatAt: 0,
    beat: 1,
    heartbeatAge: 0,
    sessionLives: null,
    ...change,
  };
}

/** Milliseconds between the looks of a process that is not frozen. */
const every = 400;

/**
 * Deaths on a clock that is moved by hand; `look` tells the ids of the dead at that moment, after looking at what was
 * there before every 400 ms until then. `lookAfterFreeze` looks at nothing in between.
 */
function observer(write: () => Promise<unknown> = async () => undefined) {
  let now = 0;
  let before: WorkerRecord[] = [];
  const deaths = new FailureDetector(() => 1_000 + now);
  const lookAfterFreeze = async (at: number, ...workers: WorkerRecord[]) => {
    now = at;
    before = workers;
    return (await deaths.findDead(workers, write)).map(({ id }) => id);
  };
  const look = async (at: number, ...workers: WorkerRecord[]) => {
    while (now + every < at) await lookAfterFreeze(now + every, ...before);
    return await lookAfterFreeze(at, ...workers);
  };
  const pass = (ms: number) => {
    now += ms;
  };
  return { look, lookAfterFreeze, nextLook: () => deaths.nextLook, pass };
}

describe("a heartbeat", () => {
  it("that stands still for the lease means death, and not a moment sooner", async () => {
    const { look } = observer();
    expect(await look(0, far())).toEqual([]);
    expect(await look(lease - 1, far({ heartbeatAge: lease / 2 - 1 }))).toEqual([]);
    expect(await look(lease + 2 * every, far())).toEqual(["far"]);
    expect(await look(lease + 3 * every, far())).toEqual(["far"]);
  });

  it("that stood still while the observer was frozen too proves nothing", async () => {
    const { look, lookAfterFreeze } = observer();
    await look(0, far());
    expect(await lookAfterFreeze(10 * lease, far({ heartbeatAge: 10 * lease }))).toEqual([]);
    // It could not beat while the machine slept; it can now, before the next look.
    expect(await look(10 * lease + every, far({ beat: 2 }))).toEqual([]);
    expect(await look(11 * lease, far({ beat: 2 }))).toEqual([]);
    expect(await look(11 * lease + 3 * every, far({ beat: 2 }))).toEqual(["far"]);
  });

  it("that stood still while nobody could write proves nothing", async () => {
    const locked = deferred();
    const { look } = observer(() => locked.promise);
    await look(0, far());
    const looking = look(lease, far());
    // The lock goes, and the worker's beat that waited for it is made.
    locked.resolve();
    expect(await looking).toEqual([]);
    expect(await look(lease + every, far({ beat: 2 }))).toEqual([]);
  });

  it("that moves starts the wait anew", async () => {
    const { look } = observer();
    for (let beat = 1; beat <= 10; beat += 1)
      expect(await look(beat * (lease - 1), far({ beat }))).toEqual([]);
    expect(await look(10 * (lease - 1) + lease - 1, far({ beat: 10 }))).toEqual([]);
    expect(await look(10 * (lease - 1) + lease + 2 * every, far({ beat: 10 }))).toEqual(["far"]);
  });

  it("is judged the moment its lease is over, and has a last chance of 200 ms", async () => {
    const { look, lookAfterFreeze, nextLook } = observer();
    await look(0, far());
    // It has beaten 100 ms before this look, by the database's clock.
    await lookAfterFreeze(every, far({ beat: 2, heartbeatAge: 100 }));
    expect(nextLook()).toBe(lease - 100);
    const over = every - 100 + lease;
    expect(await lookAfterFreeze(over - 1, far({ beat: 2 }))).toEqual([]);
    expect(nextLook()).toBe(1);
    expect(await lookAfterFreeze(over, far({ beat: 2 }))).toEqual([]);
    expect(nextLook()).toBe(200);
    expect(await lookAfterFreeze(over + 199, far({ beat: 2 }))).toEqual([]);
    expect(nextLook()).toBe(1);
    expect(await lookAfterFreeze(over + 200, far({ beat: 2 }))).toEqual(["far"]);
  });

  it("that is new is at most as old as the look before, whatever the wall clock says", async () => {
    const { lookAfterFreeze, nextLook } = observer();
    await lookAfterFreeze(0, far());
    await lookAfterFreeze(300, far({ beat: 2, heartbeatAge: 3_600_000 }));
    // 300 ms, and not half a lease: it was seen to come.
    expect(nextLook()).toBe(lease - 300);
    // The observer slept for long: that says nothing about when the other beat.
    await lookAfterFreeze(2 * lease, far({ beat: 3, heartbeatAge: lease - 1 }));
    expect(nextLook()).toBe(lease - 400);
  });

  it("that is old by the wall clock alone means nothing: that clock may have jumped", async () => {
    const { look } = observer();
    const jumped = { heartbeatAge: 7 * 24 * 3_600_000 };
    expect(await look(0, far(jumped))).toEqual([]);
    expect(await look(0, far(jumped))).toEqual([]);
    // It beats on, every third of its lease.
    for (let beat = 1; beat <= 30; beat += 1)
      expect(await look(beat * (lease / 3), far({ beat, ...jumped }))).toEqual([]);
  });

  it("that is old by both clocks means death after half a lease of stillness", async () => {
    const { look } = observer();
    expect(await look(0, far({ heartbeatAge: lease }))).toEqual([]);
    expect(await look(lease / 2 - 1, far({ heartbeatAge: 2 * lease }))).toEqual([]);
    expect(await look(lease / 2 + 2 * every, far({ heartbeatAge: 2 * lease }))).toEqual(["far"]);
  });

  it("that a wall clock stepped back makes look new is judged by its stillness", async () => {
    const { look } = observer();
    expect(await look(0, far({ heartbeatAge: -3_600_000 }))).toEqual([]);
    expect(await look(lease + 2 * every, far({ heartbeatAge: -3_590_000 }))).toEqual(["far"]);
  });

  it("is judged by the lease of its own worker, and each by its own", async () => {
    const { look } = observer();
    const workers = (beat: number) => [far({ id: "short", lease: 1_000 }), far({ id: "long", beat })];
    expect(await look(0, ...workers(1))).toEqual([]);
    expect(await look(1_000 + 2 * every, ...workers(1))).toEqual(["short"]);
    expect(await look(lease, ...workers(2))).toEqual(["short"]);
  });

  it("of a worker that was gone and has registered anew is new", async () => {
    const { look } = observer();
    await look(0, far());
    await look(100);
    expect(await look(lease, far())).toEqual([]);
    expect(await look(2 * lease + 2 * every, far())).toEqual(["far"]);
  });
});

describe("a session", () => {
  const ended = (change: Partial<WorkerRecord> = {}) => far({ sessionLives: false, ...change });

  it("that ended means death, unless its worker beats within 300 ms of when it could", async () => {
    const { lookAfterFreeze, nextLook } = observer();
    expect(await lookAfterFreeze(0, far({ sessionLives: true }))).toEqual([]);
    expect(await lookAfterFreeze(400, ended())).toEqual([]);
    expect(nextLook()).toBe(300);
    expect(await lookAfterFreeze(699, ended())).toEqual([]);
    expect(nextLook()).toBe(1);
    expect(await lookAfterFreeze(700, ended())).toEqual(["far"]);
  });

  it("that ended before anybody looked is as good a reason", async () => {
    const { lookAfterFreeze } = observer();
    expect(await lookAfterFreeze(0, ended())).toEqual([]);
    expect(await lookAfterFreeze(300, ended())).toEqual(["far"]);
  });

  it("that ended while nobody could write proves nothing: the chance comes after", async () => {
    const { lookAfterFreeze, pass } = observer(async () => pass(10_000));
    expect(await lookAfterFreeze(0, ended())).toEqual([]);
    expect(await lookAfterFreeze(10_299, ended())).toEqual([]);
    expect(await lookAfterFreeze(20_300, ended())).toEqual(["far"]);
  });

  it("that its worker has made anew is no reason any more", async () => {
    const { look, lookAfterFreeze } = observer();
    await lookAfterFreeze(0, ended());
    expect(await lookAfterFreeze(290, far({ beat: 2, sessionLives: true }))).toEqual([]);
    expect(await look(lease - 100, far({ beat: 2, sessionLives: true }))).toEqual([]);
    expect(await lookAfterFreeze(lease, ended({ beat: 3 }))).toEqual([]);
    expect(await lookAfterFreeze(lease + 300, ended({ beat: 3 }))).toEqual(["far"]);
  });

  it("that lives says nothing of a worker that beats no more", async () => {
    const { look } = observer();
    expect(await look(0, far({ sessionLives: true }))).toEqual([]);
    expect(await look(lease + 2 * every, far({ sessionLives: true }))).toEqual(["far"]);
  });
});

describe("a process", () => {
  it("that is seen to have ended is dead at once, however fresh its heartbeat", async () => {
    const { look } = observer();
    // A start time that the process with this pid does not have: the pid was given to another one.
    const reused = { ...thisProcess(), processStart: "1" };
    expect(await look(0, far({ ...reused, beat: 1 }))).toEqual(["far"]);
  });

  it("this one: its workers are alive from their making to their stop, however still their heartbeat", async () => {
    const { look } = observer();
    const untouched = () => Promise.reject(new Error("an upkeep that has not started reads nothing"));
    const upkeep = new Maintenance({
      store: {
        workers: untouched,
        heartbeat: untouched,
        rescue: untouched,
        rescueOrphans: untouched,
        promote: untouched,
        prune: untouched,
      },
      workerId: "mine",
      lease,
      retention: { completed: 1, cancelled: 1, failed: 1 },
      onWork: () => undefined,
      onRescued: () => undefined,
      report: () => undefined,
    });
    const mine = far({ id: "mine", ...thisProcess() });
    expect(await look(0, mine)).toEqual([]);
    expect(await look(10 * lease, { ...mine, heartbeatAge: 10 * lease })).toEqual([]);
    await upkeep.stop();
    await look(20 * lease, mine);
    expect(await look(21 * lease, mine)).toEqual(["mine"]);
  });

  it("this one: a worker of another of its threads lives while it beats", async () => {
    const { look } = observer();
    for (let beat = 1; beat <= 3; beat += 1)
      expect(await look(beat * (lease / 3), far({ id: "thread", ...thisProcess(), beat }))).toEqual([]);
  });
});
