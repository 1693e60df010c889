/**
 * Invariant: the checker of the chaos tests finds no fault with a history in which all went well, and names each promise
 * when it alone is broken.
 */
import { describe, expect, test } from "vitest";
import type { Entry } from "../fixtures/ledger.ts";
import { demand, type Expected, judge, promiseNames } from "./checker.ts";
import { endsAttempt, isClaim, isRefund, key, keyOfEnded } from "./promises/finder.ts";
import { type Fabrication, healthy, isPromotion, moveOf, names } from "./tale.ts";

const expected: Expected = { mayDie: (worker) => worker === names.dying };

const broken = (history: Fabrication, how: Expected = expected) =>
  judge(history, how).map(({ promise }) => promise);

const first = <T>(items: readonly T[], matches: (item: T) => boolean): T => {
  const found = items.find(matches);
  if (found === undefined) throw new Error("the healthy history has nothing of the kind");
  return found;
};

const told = (what: string) => (entry: Entry) => entry.what === what;
const line = (what: string, more: Partial<Entry> = {}): Entry => ({ what, at: 9_999, pid: 11, ...more });
const again = <T extends object>(items: T[], matches: (item: T) => boolean) =>
  void items.push({ ...first(items, matches) });

function without<T>(items: T[], matches: (item: T) => boolean): void {
  items.splice(items.indexOf(first(items, matches)), 1);
}

/** The task that was retried, died with a worker, and failed. */
const failedTask = ({ tasks }: Fabrication) => first(tasks, ({ status }) => status === "failed");

/** One way to break each promise, and as few others as can be: none. */
const breaks: Record<string, (history: Fabrication) => void> = {
  "an acknowledged task is there": ({ entries }) =>
    void entries.push(line("acknowledged", { task: 99, note: "single:9:8:1" })),
  "an enqueue is told the id of its own task": ({ entries }) =>
    void entries.push(line("acknowledged", { task: 1, note: "single:9:8:1" })),
  "no task is deleted unasked": ({ moves }) => {
    const last = first(moves.toReversed(), ({ task }) => task === 1);
    moves.push({ ...last, wasStatus: "completed", status: null, wasGeneration: 3, generation: null });
  },
  "an id is given to one task": ({ moves }) => again(moves, ({ task }) => task === 1),
  "everything comes to an end": ({ tasks }) => {
    first(tasks, ({ id }) => id === 1).status = "pending";
  },
  "what was rolled back left no trace": ({ tasks }) => {
    first(tasks, ({ id }) => id === 1).requestId = "rolled:9:0";
  },
  "a transaction's task and its order are there together": ({ orders }) => void orders.pop(),
  "a batch is there whole or not at all": ({ tasks }) => {
    for (const task of tasks) if (task.requestId?.startsWith("batch")) task.requestId = "batch:9:0:3";
  },

  "each state change adds one to the generation": (history) => {
    const move = moveOf(history, isPromotion);
    move.wasGeneration = move.generation;
  },
  "a task moves only as it may": ({ moves }) => {
    const last = first(moves.toReversed(), ({ task }) => task === 1);
    moves.push({ ...last, wasStatus: "completed", status: "scheduled", wasGeneration: 3, generation: 4 });
  },
  "at most one outcome is accepted": ({ moves }) => {
    const last = first(moves.toReversed(), ({ task }) => task === 1);
    moves.push({ ...last, wasStatus: "pending", status: "cancelled", wasGeneration: 3, generation: 4 });
  },
  "an outcome that a worker tells of was accepted": ({ entries }) =>
    void entries.push(line("completed", { task: 1, generation: 9 })),
  "an outcome is told of once": ({ entries }) => again(entries, told("failed")),
  "what a handler does in the transaction of its completion is done once": ({ effects }) =>
    void effects.push(...effects),
  "a task that failed has a reason, and one that completed has none": (history) => {
    failedTask(history).error = null;
  },

  "no generation of a task is started twice": ({ entries }) => again(entries, told("start")),
  "what starts was claimed by who starts it": ({ entries }) => {
    first(entries, told("start")).pid = 12;
  },
  "what completes was started": ({ entries }) => without(entries, told("start")),
  "an attempt is recorded unless it completed or was refunded": ({ attempts }) =>
    without(attempts, ({ outcome }) => outcome === "crashed"),
  "what is recorded is an attempt that has ended so": ({ attempts }) =>
    void attempts.push({ task: 1, generation: 9, outcome: "crashed", error: null }),
  "no attempt is recorded twice": ({ attempts }) => again(attempts, ({ outcome }) => outcome === "crashed"),
  "no attempt fails but as planned": ({ attempts }) => {
    first(attempts, ({ outcome }) => outcome === "failed").error = "database is locked";
  },
  "the retries are the charged attempts, and within the limit": (history) => {
    failedTask(history).retries = 1;
  },
  "only what is claimed, crashed or failed is charged": (history) => {
    const { id } = Object.assign(failedTask(history), { retries: 3, maxRetries: 3 });
    moveOf(history, (move) => move.task === id && isPromotion(move)).wasRetries = 0;
  },

  "nothing runs without a living worker": ({ workers }) => void workers.push(names.dying),
  "only a worker that has a row claims": (history) => {
    moveOf(history, isClaim).registered = 0;
  },
  "a worker that registers has no task yet": ({ workerMoves }) => {
    first(workerMoves, ({ came }) => came === 1).holds = 1;
  },
  "nobody is taken for dead who has beaten within his lease": ({ workerMoves }) => {
    first(workerMoves, ({ came, worker }) => came === 0 && worker === names.steady).holds = 1;
  },
  "only a worker that stops hands back uncharged": ({ entries }) => without(entries, told("stopping")),
  "no process ended by itself, and none was refused": ({ entries }) =>
    void entries.push(line("died", { note: "13" })),
  "the database is whole": (history) => {
    history.integrity = "row 1 missing from index dbq_tasks_claim";
  },
  "the write-ahead log is within bounds": (history) => {
    history.wal = 65 * 2 ** 20;
  },
};

test("a history in which all went well breaks no promise", () => {
  expect(judge(healthy(), expected)).toEqual([]);
});

test("each promise is broken below", () => {
  expect(Object.keys(breaks)).toEqual(promiseNames);
});

describe("the checker names, and nothing else:", () => {
  test.each(Object.entries(breaks))("%s", (promise, breakIt) => {
    const history = healthy();
    breakIt(history);
    expect(broken(history)).toEqual([promise]);
  });
});

describe("what a scenario expects is no fault:", () => {
  const excused: Record<string, Expected> = {
    "no task is deleted unasked": { mayBeDeleted: (task) => task === 1 },
    "everything comes to an end": { ended: false },
    "no attempt fails but as planned": { mayFail: ({ error }) => error === "database is locked" },
    "nothing runs without a living worker": { living: [names.dying] },
    "nobody is taken for dead who has beaten within his lease": { mayDie: () => true },
    "no process ended by itself, and none was refused": { allowed: ({ note }) => note === "13" },
    "the write-ahead log is within bounds": { wal: 2 ** 30 },
  };

  test.each(Object.entries(excused))("%s", (promise, excuse) => {
    const history = healthy();
    breaks[promise]?.(history);
    expect(broken(history, { ...expected, ...excuse })).toEqual([]);
  });
});

test("what a claim without an answer took, or one ahead of the slots, is handed back by whoever runs on, and what was started is not", () => {
  const history = healthy();
  const handedBack = moveOf(history, (move) => endsAttempt(move) && isRefund(move));
  without(history.entries, told("stopping"));
  const promise = "only a worker that stops hands back uncharged";
  expect(broken(history, { ...expected, unanswered: true })).toEqual([promise]);
  history.ahead = true;
  expect(broken(history)).toEqual([promise]);
  history.ahead = false;
  without(history.entries, (entry) => entry.what === "start" && key(entry) === keyOfEnded(handedBack));
  expect(broken(history)).toEqual([promise]);
  expect(broken(history, { ...expected, unanswered: true })).toEqual([]);
  history.ahead = true;
  expect(broken(history)).toEqual([]);
});

describe("a defect that the field knows:", () => {
  test("a stale outcome was accepted", () => {
    const history = healthy();
    const { id } = failedTask(history);
    // Who was taken for dead comes back, and completes the attempt that another one has begun.
    const settled = first(history.moves.toReversed(), ({ task }) => task === id);
    settled.status = "completed";
    history.entries.push(line("completed", { pid: 13, task: id, generation: 6 }));
    expect(broken(history)).toContain("an outcome that a worker tells of was accepted");
  });

  test("a crash is free, so that a poison task goes on for ever", () => {
    const history = healthy();
    const task = failedTask(history);
    const crash = moveOf(history, ({ worker, status }) => worker === names.dying && status === "pending");
    crash.retries = crash.wasRetries;
    task.retries = 1;
    without(history.attempts, ({ outcome }) => outcome === "crashed");
    expect(broken(history)).toEqual(["only a worker that stops hands back uncharged"]);
  });

  test("a rescued task waits for ever", () => {
    const history = healthy();
    const task = failedTask(history);
    task.status = "running";
    expect(broken(history)).toEqual(["everything comes to an end", "nothing runs without a living worker"]);
  });
});

test("what is told of a broken promise is its name, its case, and the story of the task", () => {
  const history = healthy();
  again(history.entries, told("start"));
  const tell = () => demand(history, expected);
  expect(tell).toThrow("no generation of a task is started twice: not so in 1 cases");
  expect(tell).toThrow(/\n {4}{"what":"start".*"task":1/);
  expect(tell).toThrow(/\n {6}{"at":\d+,"move":{.*"status":"completed"/);
});
