/** What a notification of several commits says, on which connection it goes, and that none is lost with its connection. */
import { EventEmitter } from "node:events";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { PostgresListener } from "../../../src/stores/postgres/listener.ts";
import type { Connection, ServerPool } from "../../../src/stores/server/pool.ts";
import type { Change } from "../../../src/stores/server/run.ts";
import { deferred } from "../../support/queue.ts";

/** What a server does with a notification: each process that listens receives it. */
class Wire {
  readonly #clients = new Set<FakeClient>();

  readonly listen = (): FakeClient => {
    const client = new FakeClient(this);
    this.#clients.add(client);
    client.once("end", () => this.#clients.delete(client));
    return client;
  };

  carry(payload: string): void {
    for (const client of this.#clients) client.emit("notification", { payload });
  }
}

/** The connection with which a process listens. */
class FakeClient extends EventEmitter {
  readonly #wire: Wire;
  readonly sent: string[] = [];
  /** The connection has broken, and its process does not know it yet. */
  isBroken = false;

  constructor(wire: Wire) {
    super();
    this.#wire = wire;
  }

  query = async (question: unknown) => {
    if (this.isBroken) throw new Error("the connection is lost");
    const { values: [payload] = [] } = Object(question) as { values?: readonly string[] };
    if (payload === undefined) return;
    this.sent.push(payload);
    this.#wire.carry(payload);
  };

  end = async () => void this.emit("end");
  /** Whether it keeps the process alive. */
  isHeld = true;
  ref(): void {
    this.isHeld = true;
  }
  unref(): void {
    this.isHeld = false;
  }
}

/** The listener of another process, whose shared connections send what the test lets them send. */
function processOn(wire: Wire, send: (payload: string) => Promise<void>) {
  const clients: FakeClient[] = [];
  const query = (_: string, [payload]: readonly unknown[]) => send(String(payload));
  const pool = {
    use: (fn: (connection: Connection) => Promise<unknown>) => fn({ query } as unknown as Connection),
    dedicated: async () => {
      const client = wire.listen();
      clients.push(client);
      return { client };
    },
  } as unknown as ServerPool;
  const listener = new PostgresListener(pool, "dbq");
  onTestFinished(() => listener.close());
  return { listener, clients };
}

/** A process that does not listen, and another one that receives its notifications. The first ones can be made to fail. */
async function listeners(failures = 0) {
  const wire = new Wire();
  const sent: string[] = [];
  const held = deferred();
  let left = failures;
  const { listener: writer } = processOn(wire, async (payload) => {
    sent.push(payload);
    await held.promise;
    left -= 1;
    if (left >= 0) throw new Error("the connection is lost");
    wire.carry(payload);
  });
  return { writer, sent, letGo: held.resolve, ...(await reader(wire)) };
}

async function reader(wire: Wire) {
  const { listener } = processOn(wire, async () => undefined);
  const heard: boolean[] = [];
  listener.add((mayStart) => heard.push(mayStart));
  const rewinds = vi.fn();
  listener.onRewind = rewinds;
  // What may have been missed before it listened.
  await vi.waitUntil(() => heard.length > 0);
  heard.length = 0;
  return { heard, rewinds };
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
  const { writer, heard, rewinds, sent, letGo } = await listeners();
  // These wait for a notification that is under way.
  writer.notify("quiet");
  await vi.waitUntil(() => sent.length === 1);
  for (const change of changes) writer.notify(change);
  letGo();
  await vi.waitUntil(() => heard.length === 2);
  expect([heard[1], rewinds.mock.calls.length]).toEqual(expected);
});

it("a notification whose connection is lost is sent again, with what was committed meanwhile", async () => {
  const { writer, heard, letGo } = await listeners(2);
  letGo();
  writer.notify("work");
  setImmediate(() => writer.notify("quiet"));
  await vi.waitUntil(() => heard.length > 0);
  expect(heard).toEqual([true]);
});

describe("a process that listens", () => {
  const hears = (heard: readonly unknown[]) => vi.waitUntil(() => heard.length > 0, { timeout: 5_000 });

  /** Its shared connections are all in use until `letGo`. */
  async function listening() {
    const wire = new Wire();
    const { heard } = await reader(wire);
    const held = deferred();
    const pooled: string[] = [];
    const { listener, clients } = processOn(wire, async (payload) => {
      await held.promise;
      pooled.push(payload);
      wire.carry(payload);
    });
    const listens = vi.fn();
    const stop = listener.add(listens);
    await hears(listens.mock.calls);
    // Its listener is gone, as that of a busy worker is for moments; the process listens all the same.
    stop();
    const [client] = clients as [FakeClient];
    return { listener, clients, client, heard, pooled, letGo: held.resolve };
  }

  it("notifies others on that connection, though all shared ones are in use", async () => {
    const { listener, client, heard, pooled } = await listening();
    listener.notify("work");
    await hears(heard);
    expect([heard, client.sent.length, pooled]).toEqual([[true], 1, []]);
  });

  it("notifies others on a shared connection while that one is being made again", async () => {
    const { listener, client, heard, pooled, letGo } = await listening();
    letGo();
    client.emit("error", new Error("terminated"));
    listener.notify("work");
    await hears(heard);
    expect([heard, client.sent, pooled.length]).toEqual([[true], [], 1]);
  });

  it("sends a notification again when that connection turns out to be broken", async () => {
    const { listener, client, clients, heard, letGo } = await listening();
    client.isBroken = true;
    listener.notify("work");
    // The process hears of it a moment later. By then the notification has failed.
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    expect(heard).toEqual([]);
    client.emit("error", new Error("terminated"));
    letGo();
    await hears(heard);
    expect(heard).toEqual([true]);
    expect(client.sent).toEqual([]);
    await vi.waitUntil(() => clients.length === 2, { timeout: 5_000 });
  });

  it("lives on until a notification is answered, however little else it has to do", async () => {
    const { listener, client, heard } = await listening();
    const answer = deferred();
    client.query = () => answer.promise;
    const before = client.isHeld;
    listener.notify("work");
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    const during = client.isHeld;
    answer.resolve();
    await vi.waitUntil(() => !client.isHeld);
    expect([before, during, heard]).toEqual([false, true, []]);
  });

  it("listens on another connection when a notification fails on that one without more", async () => {
    const { listener, client, clients, heard, letGo } = await listening();
    client.isBroken = true;
    letGo();
    listener.notify("work");
    await vi.waitUntil(() => clients.length === 2, { timeout: 5_000 });
    expect(heard).toEqual([true]);
  });
});
