/**
 * A few connections are shared, no more than was said; one that broke, or of which nobody knows how it is, is never used
 * again; and of several hosts each has its turn.
 */
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type Connection, Hosts, ServerPool } from "../../src/stores/server-pool.ts";
import type { Host } from "../../src/stores/server-url.ts";
import { deferred } from "../support/queue.ts";

class Made implements Connection {
  readonly client = undefined;
  readonly host: string;
  broken = false;
  ended = 0;
  destroyed = 0;
  keepsAlive = true;

  constructor({ host }: Host) {
    this.host = host;
  }

  query = () => Promise.reject(new Error("nothing is asked here"));

  hold(on: boolean): void {
    this.keepsAlive = on;
  }

  async end(): Promise<void> {
    this.broken = true;
    this.ended += 1;
  }

  destroy(): void {
    this.broken = true;
    this.destroyed += 1;
  }
}

/** A pool whose hosts are named by letters, in that order, and what it connected to. */
function poolOf(size: number, letters = "a") {
  const random = vi.spyOn(Math, "random").mockReturnValue(0);
  onTestFinished(() => random.mockRestore());
  const made: Made[] = [];
  const refusing = new Set<string>();
  const hosts = new Hosts([...letters].map((host) => ({ host, port: 1 })));
  const connect = async (host: Host) => {
    if (refusing.has(host.host)) throw new Error(`${host.host} refuses`);
    const connection = new Made(host);
    made.push(connection);
    return connection;
  };
  return { pool: new ServerPool(connect, hosts, size), hosts, made, refusing };
}

const never = () => false;
const always = () => true;
const nothing = async () => undefined;
const failing = async () => {
  throw new Error("it failed");
};

describe("a shared connection", () => {
  it("is used again, and keeps the process alive only while it is used", async () => {
    const { pool, made } = poolOf(2);
    const during = await pool.use(async (connection) => (connection as Made).keepsAlive, never);
    await pool.use(nothing, never);
    await expect(pool.use(failing, never)).rejects.toThrow("it failed");
    expect(during).toBe(true);
    expect(made).toMatchObject([{ keepsAlive: false, ended: 0 }]);
  });

  it("is ended at once after what spoilt it, and never used again", async () => {
    const { pool, made } = poolOf(1);
    await expect(pool.use(failing, always)).rejects.toThrow("it failed");
    await pool.use(nothing, never);
    expect(made).toMatchObject([{ destroyed: 1 }, { destroyed: 0, ended: 0 }]);
  });

  it("that broke while somebody used it, or nobody did, is not used again", async () => {
    const { pool, made } = poolOf(1);
    const breaking = async (connection: Connection) => {
      (connection as Made).broken = true;
    };
    await pool.use(breaking, never);
    await pool.use(nothing, never);
    expect(made).toHaveLength(2);
    (made[1] as Made).broken = true;
    await pool.use(nothing, never);
    expect(made).toHaveLength(3);
  });

  it("is waited for when there are as many as were said", async () => {
    const { pool, made } = poolOf(2);
    const [first, second] = [deferred(), deferred()];
    const uses = [first, second].map(({ promise }) => pool.use(() => promise, never));
    let begun = false;
    const third = pool.use(async () => {
      begun = true;
    }, never);
    await new Promise((resolve) => setImmediate(resolve));
    expect([made.length, begun]).toEqual([2, false]);
    second.resolve();
    await third;
    first.resolve();
    await Promise.all(uses);
    expect(made).toHaveLength(2);
  });

  it("that could not be made takes nobody's place", async () => {
    const { pool, refusing } = poolOf(1);
    refusing.add("a");
    const both = [pool.use(nothing, never), pool.use(nothing, never)];
    for (const use of both) await expect(use).rejects.toThrow("a refuses");
    refusing.clear();
    await pool.use(nothing, never);
  });

  it("ends with the pool, at once or when it is given back", async () => {
    const { pool, made } = poolOf(2);
    const going = deferred();
    const use = pool.use(() => going.promise, never);
    await pool.use(nothing, never);
    await pool.close();
    expect(made.map(({ ended }) => ended)).toEqual([0, 1]);
    going.resolve();
    await use;
    expect(made.map(({ ended }) => ended)).toEqual([1, 1]);
  });
});

describe("of several hosts", () => {
  it("the first that answers is taken, and is the first to be tried from then on", async () => {
    const { pool, hosts, made, refusing } = poolOf(1, "abc");
    refusing.add("a").add("b");
    await pool.use(nothing, never);
    expect(made.map(({ host }) => host)).toEqual(["c"]);
    expect(hosts.inOrder.map(({ host }) => host).join("")).toBe("cab");
  });

  it("the one whose connection broke is tried last", async () => {
    const { pool, hosts, made } = poolOf(1, "abc");
    await expect(pool.use(failing, always)).rejects.toThrow("it failed");
    expect(hosts.inOrder.map(({ host }) => host).join("")).toBe("bca");
    await pool.use(nothing, never);
    expect(made.map(({ host }) => host)).toEqual(["a", "b"]);
  });

  it("one is not tried first again because several of its connections broke", async () => {
    const { pool, hosts } = poolOf(2, "ab");
    const uses = [pool.use(failing, always), pool.use(failing, always)];
    for (const use of uses) await expect(use).rejects.toThrow("it failed");
    expect(hosts.inOrder.map(({ host }) => host).join("")).toBe("ba");
  });

  it("all refuse: the last one's refusal is what is said", async () => {
    const { pool, refusing } = poolOf(1, "ab");
    refusing.add("a").add("b");
    await expect(pool.held()).rejects.toThrow("b refuses");
  });
});
