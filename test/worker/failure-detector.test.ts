/**
 * Invariant: a worker that sends heartbeats is never declared dead, whatever the clocks do. A silent one is, within its
 * lease; one whose process is seen to have ended is at once; one whose session has ended is when it does not connect
 * again.
 */
import { describe, expect, it } from "vitest";
import { thisProcess } from "../../src/base/runtime/process-identity.ts";
import type { WorkerRecord } from "../../src/store.ts";
import { FailureDetector } from "../../src/worker/failure-detector.ts";
import { Maintenance } from "../../src/worker/maintenance.ts";
import { workerRecord } from "../conformance/arrange.ts";
import { deferred } from "../support/queue.ts";

const lease = 15_000;

/** A worker on a host whose processes this one cannot see, so that its heartbeat alone decides. */
const far = (change: Partial<WorkerRecord> = {}) => workerRecord("far", { lease, ...change });

/** Milliseconds between the sweeps of a process that is not frozen. */
const every = 400;

/**
 * A failure detector on a clock that the test moves. `look` returns the ids of the dead at that moment, after looks
 * every 400 ms until then at the workers of the last call. `lookAfterFreeze` does not look in between.
 */
function observer(write: () => Promise<unknown> = async () => undefined) {
  let now = 0;
  let before: WorkerRecord[] = [];
  const detector = new FailureDetector(() => 1_000 + now);
  const lookAfterFreeze = async (at: number, ...workers: WorkerRecord[]) => {
    now = at;
    before = workers;
    return (await detector.findDead(workers, write)).map(({ id }) => id);
  };
  const look = async (at: number, ...workers: WorkerRecord[]) => {
    while (now + every < at) await lookAfterFreeze(now + every, ...before);
    return await lookAfterFreeze(at, ...workers);
  };
  const pass = (ms: number) => {
    now += ms;
  };
  return { look, lookAfterFreeze, nextLook: () => detector.nextLook, pass };
}

describe("heartbeats", () => {
  it("a worker that cannot be seen is dead when it has been silent for its lease, and not before", async () => {
    const { look } = observer();
    expect(await look(0, far())).toEqual([]);
    expect(await look(lease - 1, far({ heartbeatAge: lease / 2 - 1 }))).toEqual([]);
    expect(await look(lease + 2 * every, far())).toEqual(["far"]);
    expect(await look(lease + 3 * every, far())).toEqual(["far"]);
  });

  it("silence while the observer was frozen too proves nothing", async () => {
    const { look, lookAfterFreeze } = observer();
    await look(0, far());
    expect(await lookAfterFreeze(10 * lease, far({ heartbeatAge: 10 * lease }))).toEqual([]);
    // It could send no heartbeat while the machine slept; now it does, before the next look.
    expect(await look(10 * lease + every, far({ beat: 2 }))).toEqual([]);
    expect(await look(11 * lease, far({ beat: 2 }))).toEqual([]);
    expect(await look(11 * lease + 3 * every, far({ beat: 2 }))).toEqual(["far"]);
  });

  it("silence while no process could write proves nothing", async () => {
    const locked = deferred();
    const { look } = observer(() => locked.promise);
    await look(0, far());
    const looking = look(lease, far());
    // The lock is released, and the worker sends the heartbeat that waited for it.
    locked.resolve();
    expect(await looking).toEqual([]);
    expect(await look(lease + every, far({ beat: 2 }))).toEqual([]);
  });

  it("a new heartbeat starts the lease again", async () => {
    const { look } = observer();
    for (let beat = 1; beat <= 10; beat += 1)
      expect(await look(beat * (lease - 1), far({ beat }))).toEqual([]);
    expect(await look(10 * (lease - 1) + lease - 1, far({ beat: 10 }))).toEqual([]);
    expect(await look(10 * (lease - 1) + lease + 2 * every, far({ beat: 10 }))).toEqual(["far"]);
  });

  it("a silent worker is suspected the moment its lease is over, and dead 200 ms later", async () => {
    const { look, lookAfterFreeze, nextLook } = observer();
    await look(0, far());
    // It sent a heartbeat 100 ms before this look, by the database's clock.
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

  it("a new heartbeat counts as at most as old as the last look, whatever the wall clock says", async () => {
    const { lookAfterFreeze, nextLook } = observer();
    await lookAfterFreeze(0, far());
    await lookAfterFreeze(300, far({ beat: 2, heartbeatAge: 3_600_000 }));
    // 300 ms, not half a lease: it came between two looks.
    expect(nextLook()).toBe(lease - 300);
    // The observer slept for long: that does not say when the heartbeat was sent.
    await lookAfterFreeze(2 * lease, far({ beat: 3, heartbeatAge: lease - 1 }));
    expect(nextLook()).toBe(lease - 400);
  });

  it("a heartbeat that is old by the wall clock alone proves nothing: that clock may have jumped", async () => {
    const { look } = observer();
    const jumped = { heartbeatAge: 7 * 24 * 3_600_000 };
    expect(await look(0, far(jumped))).toEqual([]);
    expect(await look(0, far(jumped))).toEqual([]);
    // It goes on, with a heartbeat every third of its lease.
    for (let beat = 1; beat <= 30; beat += 1)
      expect(await look(beat * (lease / 3), far({ beat, ...jumped }))).toEqual([]);
  });

  it("a worker whose heartbeat is old by both clocks is dead after half a lease of silence", async () => {
    const { look } = observer();
    expect(await look(0, far({ heartbeatAge: lease }))).toEqual([]);
    expect(await look(lease / 2 - 1, far({ heartbeatAge: 2 * lease }))).toEqual([]);
    expect(await look(lease / 2 + 2 * every, far({ heartbeatAge: 2 * lease }))).toEqual(["far"]);
  });

  it("a wall clock that is stepped back keeps no silent worker alive", async () => {
    const { look } = observer();
    expect(await look(0, far({ heartbeatAge: -3_600_000 }))).toEqual([]);
    expect(await look(lease + 2 * every, far({ heartbeatAge: -3_590_000 }))).toEqual(["far"]);
  });

  it("each worker is judged by its own lease", async () => {
    const { look } = observer();
    const workers = (beat: number) => [far({ id: "short", lease: 1_000 }), far({ id: "long", beat })];
    expect(await look(0, ...workers(1))).toEqual([]);
    expect(await look(1_000 + 2 * every, ...workers(1))).toEqual(["short"]);
    expect(await look(lease, ...workers(2))).toEqual(["short"]);
  });

  it("a worker that was gone and has registered again starts a new lease", async () => {
    const { look } = observer();
    await look(0, far());
    await look(100);
    expect(await look(lease, far())).toEqual([]);
    expect(await look(2 * lease + 2 * every, far())).toEqual(["far"]);
  });
});

describe("sessions", () => {
  const ended = (change: Partial<WorkerRecord> = {}) => far({ sessionLives: false, ...change });

  it("a worker whose session has ended is dead, unless it sends a heartbeat within 300 ms of when it could", async () => {
    const { lookAfterFreeze, nextLook } = observer();
    expect(await lookAfterFreeze(0, far({ sessionLives: true }))).toEqual([]);
    expect(await lookAfterFreeze(400, ended())).toEqual([]);
    expect(nextLook()).toBe(300);
    expect(await lookAfterFreeze(699, ended())).toEqual([]);
    expect(nextLook()).toBe(1);
    expect(await lookAfterFreeze(700, ended())).toEqual(["far"]);
  });

  it("a worker whose session had ended before the first look is dead too", async () => {
    const { lookAfterFreeze } = observer();
    expect(await lookAfterFreeze(0, ended())).toEqual([]);
    expect(await lookAfterFreeze(300, ended())).toEqual(["far"]);
  });

  it("a worker whose session ended while no process could write has 300 ms after that", async () => {
    const { lookAfterFreeze, pass } = observer(async () => pass(10_000));
    expect(await lookAfterFreeze(0, ended())).toEqual([]);
    expect(await lookAfterFreeze(10_299, ended())).toEqual([]);
    expect(await lookAfterFreeze(20_300, ended())).toEqual(["far"]);
  });

  it("a worker that has connected again is alive", async () => {
    const { look, lookAfterFreeze } = observer();
    await lookAfterFreeze(0, ended());
    expect(await lookAfterFreeze(290, far({ beat: 2, sessionLives: true }))).toEqual([]);
    expect(await look(lease - 100, far({ beat: 2, sessionLives: true }))).toEqual([]);
    expect(await lookAfterFreeze(lease, ended({ beat: 3 }))).toEqual([]);
    expect(await lookAfterFreeze(lease + 300, ended({ beat: 3 }))).toEqual(["far"]);
  });

  it("a worker whose session lives is dead when it has been silent for its lease", async () => {
    const { look } = observer();
    expect(await look(0, far({ sessionLives: true }))).toEqual([]);
    expect(await look(lease + 2 * every, far({ sessionLives: true }))).toEqual(["far"]);
  });
});

describe("processes", () => {
  it("a worker whose process is seen to have ended is dead at once, however fresh its heartbeat", async () => {
    const { look } = observer();
    // The process with this pid has another start time: the pid has been given to another process.
    const reused = { ...thisProcess(), processStart: "1" };
    expect(await look(0, far({ ...reused, beat: 1 }))).toEqual(["far"]);
  });

  it("the workers of this thread are alive from their creation to their stop, however silent they are", async () => {
    const { look } = observer();
    const untouched = () => Promise.reject(new Error("maintenance that has not started reads nothing"));
    const maintenance = new Maintenance({
      store: {
        workers: untouched,
        heartbeat: untouched,
        rescue: untouched,
        rescueOrphans: untouched,
        promote: untouched,
        prune: untouched,
        freeKeys: untouched,
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
    await maintenance.stop();
    await look(20 * lease, mine);
    expect(await look(21 * lease, mine)).toEqual(["mine"]);
  });

  it("a worker of another thread of this process lives while it sends heartbeats", async () => {
    const { look } = observer();
    for (let beat = 1; beat <= 3; beat += 1)
      expect(await look(beat * (lease / 3), far({ id: "thread", ...thisProcess(), beat }))).toEqual([]);
  });
});
