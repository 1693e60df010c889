/**
 * Invariant: the checker of the chaos tests accepts a correct history, and for each promise names exactly that promise
 * when a history breaks it.
 */
import { describe, expect, test } from "vitest";
import type { Entry } from "../fixtures/event-log.ts";
import { demand, type Expected, judge, promiseNames } from "./checker.ts";
import { correctHistory, type FabricatedHistory, isPromotion, moveOf, names } from "./fabricated-history.ts";
import { endsAttempt, isClaim, isRefund, key, keyOfEnded } from "./promises/finder.ts";

const expected: Expected = { mayDie: (worker) => worker === names.dying };

const broken = (history: FabricatedHistory, how: Expected = expected) =>
  judge(history, how).map(({ promise }) => promise);

const first = <T>(items: readonly T[], matches: (item: T) => boolean): T => {
  const found = items.find(matches);
  if (found === undefined) throw new Error("the correct history has no such entry");
  return found;
};

const reports = (what: string) => (entry: Entry) => entry.what === what;
const line = (what: string, more: Partial<Entry> = {}): Entry => ({ what, at: 9_999, pid: 11, ...more });
const again = <T extends object>(items: T[], matches: (item: T) => boolean) =>
  void items.push({ ...first(items, matches) });

function without<T>(items: T[], matches: (item: T) => boolean): void {
  items.splice(items.indexOf(first(items, matches)), 1);
}

/** The task that was retried, died with a worker, and failed. */
const failedTask = ({ tasks }: FabricatedHistory) => first(tasks, ({ status }) => status === "failed");

/** The worker that stopped is gone after its lease instead. */
function endsSilently({ entries, workerMoves }: FabricatedHistory): void {
  without(entries, reports("stopping"));
  const move = first(workerMoves, ({ came, worker }) => came === 0 && worker === names.stopping);
  move.silent = move.lease;
}

/** For each promise, a change of the history that breaks this promise and no other. */
const breaks: Record<string, (history: FabricatedHistory) => void> = {
  "an acknowledged task exists": ({ entries }) =>
    void entries.push(line("acknowledged", { task: 99, note: "single:9:8:1" })),
  "an enqueue returns the id of its own task": ({ entries }) =>
    void entries.push(line("acknowledged", { task: 1, note: "single:9:8:1" })),
  "no task is deleted without a request": ({ moves }) => {
    const last = first(moves.toReversed(), ({ task }) => task === 1);
    moves.push({ ...last, wasStatus: "completed", status: null, wasGeneration: 3, generation: null });
  },
  "an id is used for one task": ({ moves }) => again(moves, ({ task }) => task === 1),
  "every task ends": ({ tasks }) => {
    first(tasks, ({ id }) => id === 1).status = "pending";
  },
  "a rolled-back transaction leaves no trace": ({ tasks }) => {
    first(tasks, ({ id }) => id === 1).requestId = "rolled:9:0";
  },
  "an app's order and its task exist together": ({ orders }) => void orders.pop(),
  "a batch exists as a whole or not at all": ({ tasks }) => {
    for (const task of tasks) if (task.requestId?.startsWith("batch")) task.requestId = "batch:9:0:3";
  },

  "each state change adds one to the generation": (history) => {
    const move = moveOf(history, isPromotion);
    move.wasGeneration = move.generation;
  },
  "a task only makes allowed changes of state": ({ moves }) => {
    const last = first(moves.toReversed(), ({ task }) => task === 1);
    moves.push({ ...last, wasStatus: "completed", status: "scheduled", wasGeneration: 3, generation: 4 });
  },
  "at most one outcome is accepted": ({ moves }) => {
    const last = first(moves.toReversed(), ({ task }) => task === 1);
    moves.push({ ...last, wasStatus: "pending", status: "cancelled", wasGeneration: 3, generation: 4 });
  },
  "a worker reports only accepted outcomes": ({ entries }) =>
    void entries.push(line("completed", { task: 1, generation: 9 })),
  "a worker reports an outcome once": ({ entries }) => again(entries, reports("failed")),
  "a handler's write in the transaction of its completion happens once": ({ effects }) =>
    void effects.push(...effects),
  "a failed task has an error, and a completed one has none": (history) => {
    failedTask(history).error = null;
  },

  "no generation of a task starts twice": ({ entries }) => again(entries, reports("start")),
  "a worker starts only tasks that it claimed": ({ entries }) => {
    first(entries, reports("start")).pid = 12;
  },
  "only a started attempt completes": ({ entries }) => without(entries, reports("start")),
  "an attempt is recorded unless it completed or was handed back": ({ attempts }) =>
    without(attempts, ({ outcome }) => outcome === "crashed"),
  "a recorded attempt has ended as recorded": ({ attempts }) =>
    void attempts.push({ task: 1, generation: 9, outcome: "crashed", error: null }),
  "no attempt is recorded twice": ({ attempts }) => again(attempts, ({ outcome }) => outcome === "crashed"),
  "no attempt fails unless planned": ({ attempts }) => {
    first(attempts, ({ outcome }) => outcome === "failed").error = "database is locked";
  },
  "the retry count is the number of charged attempts, within the limit": (history) => {
    failedTask(history).retries = 1;
  },
  "only a crashed or failed attempt is charged": (history) => {
    const { id } = Object.assign(failedTask(history), { retries: 3, maxRetries: 3 });
    moveOf(history, (move) => move.task === id && isPromotion(move)).wasRetries = 0;
  },

  "nothing runs without a live worker": ({ workers }) => void workers.push(names.dying),
  "only a registered worker claims": (history) => {
    moveOf(history, isClaim).registered = 0;
  },
  "a worker holds no task when it registers": ({ workerMoves }) => {
    first(workerMoves, ({ came }) => came === 1).holds = 1;
  },
  "no worker is rescued within its lease": ({ workerMoves, entries }) => {
    const { at } = first(
      entries,
      ({ what, pid }) => what === "stopping" && names.steady.includes(`:${pid}:`),
    );
    first(workerMoves, ({ came, worker }) => came === 0 && worker === names.steady).at = at - 1;
  },
  "only a stopping worker hands back uncharged": (history) => endsSilently(history),
  "no process dies, fails or is refused": ({ entries }) => void entries.push(line("died", { note: "13" })),
  "the database is intact": (history) => {
    history.integrity = "row 1 missing from index dbq_tasks_claim";
  },
  "the write-ahead log is within bounds": (history) => {
    history.wal = 65 * 2 ** 20;
  },
};

test("a correct history breaks no promise", () => {
  expect(judge(correctHistory(), expected)).toEqual([]);
});

test("each promise has a history that breaks it", () => {
  expect(Object.keys(breaks)).toEqual(promiseNames);
});

describe("the checker names the broken promise and no other", () => {
  test.each(Object.entries(breaks))("%s", (promise, breakIt) => {
    const history = correctHistory();
    breakIt(history);
    expect(broken(history)).toEqual([promise]);
  });
});

describe("the checker accepts what a scenario expects", () => {
  const excused: Record<string, Expected> = {
    "no task is deleted without a request": { mayBeDeleted: (task) => task === 1 },
    "every task ends": { ended: false },
    "no attempt fails unless planned": { mayFail: ({ error }) => error === "database is locked" },
    "nothing runs without a live worker": { living: [names.dying] },
    "no worker is rescued within its lease": { mayDie: () => true },
    "no process dies, fails or is refused": { allowed: ({ note }) => note === "13" },
    "the write-ahead log is within bounds": { wal: 2 ** 30 },
  };

  test.each(Object.entries(excused))("%s", (promise, excuse) => {
    const history = correctHistory();
    breaks[promise]?.(history);
    expect(broken(history, { ...expected, ...excuse })).toEqual([]);
  });
});

test("a task claimed ahead, or by a claim whose answer was lost, may be handed back uncharged by a running worker unless it was started", () => {
  const history = correctHistory();
  const handedBack = moveOf(history, (move) => endsAttempt(move) && isRefund(move));
  endsSilently(history);
  const promise = "only a stopping worker hands back uncharged";
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

describe("the checker finds known defects of task queues", () => {
  test("an accepted stale outcome", () => {
    const history = correctHistory();
    const { id } = failedTask(history);
    // A worker that was declared dead comes back and completes an attempt that another worker has begun.
    const settled = first(history.moves.toReversed(), ({ task }) => task === id);
    settled.status = "completed";
    history.entries.push(line("completed", { pid: 13, task: id, generation: 6 }));
    expect(broken(history)).toContain("a worker reports only accepted outcomes");
  });

  test("a crash that charges nothing, so that a poison task runs for ever", () => {
    const history = correctHistory();
    const task = failedTask(history);
    const crash = moveOf(history, ({ worker, status }) => worker === names.dying && status === "pending");
    crash.retries = crash.wasRetries;
    task.retries = 1;
    without(history.attempts, ({ outcome }) => outcome === "crashed");
    expect(broken(history)).toEqual(["only a stopping worker hands back uncharged"]);
  });

  test("a rescued task that never runs again", () => {
    const history = correctHistory();
    const task = failedTask(history);
    task.status = "running";
    expect(broken(history)).toEqual(["every task ends", "nothing runs without a live worker"]);
  });
});

test("the error names the broken promise, its cases and the events of the task", () => {
  const history = correctHistory();
  again(history.entries, reports("start"));
  const check = () => demand(history, expected);
  expect(check).toThrow("no generation of a task starts twice: violated in 1 cases");
  expect(check).toThrow(/\n {4}{"what":"start".*"task":1/);
  expect(check).toThrow(/\n {6}{"at":\d+,"move":{.*"status":"completed"/);
});
