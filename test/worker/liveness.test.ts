import { describe, expect, it } from "vitest";
import type { WorkerRecord } from "../../src/store.ts";
import { checkWorkers } from "../../src/worker/liveness.ts";
import { workerRecord } from "../conformance/arrange.ts";

/** A worker on another machine: only its heartbeat and its session can be seen. */
const remote = workerRecord("w1", { heartbeatAge: 100, sessionLives: true });

/** Checks one worker, whose row is `rows[0]` at the first look, `rows[1]` at the second, and so on. */
async function check(rows: Partial<WorkerRecord>[], heartbeat = async () => false) {
  let look = 0;
  const workers = async () => [{ ...remote, ...rows[Math.min(look++, rows.length - 1)] }];
  const [health] = await checkWorkers({ workers, heartbeat });
  return [health?.liveness, health?.reason];
}

describe("the liveness of a worker on another machine", () => {
  const ended = { sessionLives: false };

  it.each([
    ["alive while its session is open and its lease runs", [{}], ["alive", null]],
    ["alive where it has no session and its lease runs", [{ sessionLives: null }], ["alive", null]],
    ["silent at the end of its lease", [{ heartbeatAge: 15_000 }], ["silent", "lease-expired"]],
    ["dead when its session has ended and no heartbeat follows", [ended], ["dead", "session-ended"]],
    ["alive when it connects again within 0.3 s", [ended, { beat: 2 }], ["alive", null]],
    [
      "silent when its session has ended and heartbeats go on",
      [ended, { ...ended, beat: 2 }, { ...ended, beat: 3 }],
      ["silent", "session-ended"],
    ],
  ])("is %s", async (_, rows, expected) => {
    expect(await check(rows)).toEqual(expected);
  });

  it("is silent when its session has ended and the database takes no writes: its heartbeats fail too", async () => {
    const refuse = async () => Promise.reject(new Error("read-only"));
    expect(await check([ended], refuse)).toEqual(["silent", "session-ended"]);
  });
});
