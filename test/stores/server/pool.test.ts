/**
 * A few connections are shared, no more than was said; one that broke, or of which nobody knows how it is, is never used
 * again; and of several hosts each has its turn.
 */
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type Connection, Hosts, type PoolLimits, ServerPool } from "../../../src/stores/server/pool.ts";
import type { Host } from "../../../src/stores/server/url.ts";
import { deferred } from "../../support/queue.ts";

class Made implements Connection {
  readonly client = undefined;
  readonly host: string;
  broken = false;
  ended = 0;
  destroyed = 0;
  keepsAlive = true;
  alive = true;
  /** For each time that it was asked for a sign of life: whether it kept the process alive meanwhile. */
  readonly signs: boolean[] = [];

  constructor({ host }: Host) {
    this.host = host;
  }

  query = () => Promise.reject(new Error("nothing is asked here"));

  async answers(): Promise<boolean> {
    this.signs.push(this.keepsAlive);
    return this.alive;
  }

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
function poolOf(size: number, letters = "a", limits?: PoolLimits) {
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
  return { pool: new ServerPool(connect, hosts, size, limits), hosts, made, refusing };
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

  it("is not waited for longer than was said: those who have them may wait for one themselves", async () => {
    const { pool } = poolOf(1, "a", { patience: 20 });
    const use = () => pool.use(nothing, never);
    await expect(pool.use(use, never)).rejects.toThrow(
      "a:1: for 0.02 s none of 1 connections was free: does a transaction wait for another one inside of it?",
    );
    await use();
    const both = [use(), use()];
    await Promise.all(both);
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

describe("a connection that nobody has used for a while", () => {
  /** A pool with as many connections as were used at once, given back at 0 ms; and its clock. */
  async function idlePool(size: number, limits: PoolLimits) {
    const clock = vi.spyOn(performance, "now").mockReturnValue(0);
    onTestFinished(() => clock.mockRestore());
    const { pool, made } = poolOf(size, "a", limits);
    const going = deferred();
    const uses = Array.from({ length: size }, () => pool.use(() => going.promise, never));
    going.resolve();
    await Promise.all(uses);
    return { pool, made, clock };
  }

  it("is asked for a sign of life, and used when it gives one", async () => {
    const { pool, made, clock } = await idlePool(1, { trust: 1_000 });
    clock.mockReturnValue(1_001);
    await pool.use(nothing, never);
    expect(made).toMatchObject([{ signs: [true], destroyed: 0 }]);
  });

  it("is ended when it gives none, and so are those that are as old: another one is made", async () => {
    const { pool, made, clock } = await idlePool(2, { trust: 1_000 });
    for (const connection of made) connection.alive = false;
    clock.mockReturnValue(1_001);
    const host = await pool.use(async (connection) => (connection as Made).host, never);
    expect(host).toBe("a");
    expect(made.map(({ destroyed }) => destroyed)).toEqual([1, 1, 0]);
    expect(made.flatMap(({ signs }) => signs)).toEqual([true]);
    await Promise.all([pool.use(nothing, never), pool.use(nothing, never)]);
    expect(made).toHaveLength(4);
  });

  it("is none that somebody has used a moment ago: to ask costs a round trip", async () => {
    const { pool, made, clock } = await idlePool(1, { trust: 1_000 });
    clock.mockReturnValue(1_000);
    await pool.use(nothing, never);
    expect(made).toMatchObject([{ signs: [] }]);
  });

  it("is trusted where questions have a limit of their own", async () => {
    const { pool, made, clock } = await idlePool(1, {});
    clock.mockReturnValue(86_400_000);
    await pool.use(nothing, never);
    expect(made).toMatchObject([{ signs: [] }]);
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
