/** What a notification of several commits says, and that none is lost with its connection. */
import { EventEmitter } from "node:events";
import { expect, it, onTestFinished, vi } from "vitest";
import { PostgresListener } from "../../../src/stores/postgres/listener.ts";
import type { Connection, ServerPool } from "../../../src/stores/server/pool.ts";
import type { Change } from "../../../src/stores/server/run.ts";
import { deferred } from "../../support/queue.ts";

/** A listener whose notifications another one receives. The first ones can be made to fail. */
function listeners(failures = 0) {
  const ends = { query: async () => undefined, end: async () => undefined };
  const client = Object.assign(new EventEmitter(), { ...ends, ref: () => undefined, unref: () => undefined });
  const sent: string[] = [];
  const held = deferred();
  let left = failures;
  const query = async (_: string, [payload]: readonly unknown[]) => {
    sent.push(String(payload));
    await held.promise;
    left -= 1;
    if (left >= 0) throw new Error("the connection is lost");
    client.emit("notification", { payload });
  };
  const pool = {
    use: (fn: (connection: Connection) => Promise<unknown>) => fn({ query } as unknown as Connection),
    dedicated: async () => ({ client }),
  } as unknown as ServerPool;
  const [writer, reader] = [new PostgresListener(pool, "dbq"), new PostgresListener(pool, "dbq")];
  onTestFinished(async () => void (await Promise.all([writer.close(), reader.close()])));
  const heard: boolean[] = [];
  reader.add((mayStart) => heard.push(mayStart));
  const rewinds = vi.fn();
  reader.onRewind = rewinds;
  return { writer, heard, rewinds, sent, letGo: held.resolve };
}

type Heard = readonly [mayStart: boolean, rewinds: number];

it.each<[Change[], Heard]>([
  [["quiet"], [false, 0]],
  [
    ["quiet", "quiet"],
    [false, 0],
  ],
  [["work"], [true, 0]],
  [
    ["quiet", "work"],
    [true, 0],
  ],
  [
    ["work", "quiet"],
    [true, 0],
  ],
  [["rewind"], [true, 1]],
  [
    ["rewind", "quiet"],
    [true, 1],
  ],
  [
    ["quiet", "rewind", "work", "quiet"],
    [true, 1],
  ],
])("one notification of %j says whether a task may start, and where to look", async (changes, expected) => {
  const { writer, heard, rewinds, sent, letGo } = listeners();
  await vi.waitUntil(() => heard.length > 0);
  heard.length = 0;
  // These wait for a notification that is under way.
  writer.notify("quiet");
  await vi.waitUntil(() => sent.length === 1);
  for (const change of changes) writer.notify(change);
  letGo();
  await vi.waitUntil(() => heard.length === 2);
  expect([heard[1], rewinds.mock.calls.length]).toEqual(expected);
});

it("a notification whose connection is lost is sent again, with what was committed meanwhile", async () => {
  const { writer, heard, letGo } = listeners(2);
  await vi.waitUntil(() => heard.length > 0);
  heard.length = 0;
  letGo();
  writer.notify("work");
  setImmediate(() => writer.notify("quiet"));
  await vi.waitUntil(() => heard.length > 0);
  expect(heard).toEqual([true]);
});
