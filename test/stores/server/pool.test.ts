/**
 * The pool shares a limited number of connections. It never uses a connection again that broke or may have broken, and
 * it tries several hosts in turn.
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
  /** "breaks": while it is asked whether it is a replica. */
  role: "primary" | "replica" | "breaks" = "primary";
  /** For each ping, whether the connection kept the process alive meanwhile. */
  readonly signs: boolean[] = [];

  constructor({ host }: Host) {
    this.host = host;
  }

  query = () => Promise.reject(new Error("this connection takes no queries"));

  async answers(): Promise<boolean> {
    this.signs.push(this.keepsAlive);
    return this.alive;
  }

  async refusal(): Promise<Error | undefined> {
    if (this.role === "breaks") throw new Error(`${this.host} breaks`);
    return this.role === "replica" ? new Error(`${this.host} is a replica`) : undefined;
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

/** A pool whose hosts are named by letters, in that order, and the connections that it made. */
function poolOf(size: number, letters = "a", limits?: PoolLimits) {
  const random = vi.spyOn(Math, "random").mockReturnValue(0);
  onTestFinished(() => random.mockRestore());
  const made: Made[] = [];
  const refusing = new Set<string>();
  const roles = new Map<string, Made["role"]>();
  const hosts = new Hosts([...letters].map((host) => ({ host, port: 1 })));
  const connect = async (host: Host) => {
    if (refusing.has(host.host)) throw new Error(`${host.host} refuses`);
    const connection = new Made(host);
    connection.role = roles.get(host.host) ?? "primary";
    made.push(connection);
    return connection;
  };
  return { pool: new ServerPool(connect, hosts, size, limits), hosts, made, refusing, roles };
}

const never = () => false;
const always = () => true;
const nothing = async () => undefined;
const failing = async () => {
  throw new Error("it failed");
};

describe("a pooled connection", () => {
  it("is reused, and keeps the process alive only while it is in use", async () => {
    const { pool, made } = poolOf(2);
    const during = await pool.use(async (connection) => (connection as Made).keepsAlive, never);
    await pool.use(nothing, never);
    await expect(pool.use(failing, never)).rejects.toThrow("it failed");
    expect(during).toBe(true);
    expect(made).toMatchObject([{ keepsAlive: false, ended: 0 }]);
  });

  it("is destroyed after an error that spoils it, and not reused", async () => {
    const { pool, made } = poolOf(1);
    await expect(pool.use(failing, always)).rejects.toThrow("it failed");
    await pool.use(nothing, never);
    expect(made).toMatchObject([{ destroyed: 1 }, { destroyed: 0, ended: 0 }]);
  });

  it("is not reused when it broke, in use or idle", async () => {
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

  it("is idle, or can be opened, until as many are in use as the pool may have", async () => {
    const { pool } = poolOf(2);
    const [first, second] = [deferred(), deferred()];
    const idle = [pool.hasIdle()];
    const uses = [pool.use(() => first.promise, never)];
    idle.push(pool.hasIdle());
    uses.push(pool.use(() => second.promise, never));
    idle.push(pool.hasIdle());
    second.resolve();
    await uses[1];
    idle.push(pool.hasIdle());
    expect(idle).toEqual([true, true, false, true]);
    first.resolve();
    await uses[0];
  });

  it("is waited for when all are in use", async () => {
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

  it("is waited for up to a limit, since its user may be waiting for another one", async () => {
    const { pool } = poolOf(1, "a", { waitLimit: 20 });
    const use = () => pool.use(nothing, never);
    await expect(pool.use(use, never)).rejects.toThrow(
      "a:1: for 0.02 s none of 1 connections was free: does a transaction wait for another one inside of it?",
    );
    await use();
    const both = [use(), use()];
    await Promise.all(both);
  });

  it("is ended when it was idle for longer than its limit", async () => {
    const { pool, made } = poolOf(2, "a", { idleLimit: 10 });
    const going = deferred();
    const use = pool.use(() => going.promise, never);
    await pool.use(nothing, never);
    await vi.waitUntil(() => made[1]?.ended === 1, { timeout: 5_000, interval: 5 });
    expect(made[0]?.ended).toBe(0);
    going.resolve();
    await use;
    // Its place is free again.
    await Promise.all([pool.use(nothing, never), pool.use(nothing, never)]);
    await pool.close();
  });

  it("a refused connection does not count towards the size of the pool", async () => {
    const { pool, refusing } = poolOf(1);
    refusing.add("a");
    const both = [pool.use(nothing, never), pool.use(nothing, never)];
    for (const use of both) await expect(use).rejects.toThrow("a refuses");
    refusing.clear();
    await pool.use(nothing, never);
  });

  it("ends when the pool is closed, or when it is returned after that", async () => {
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

describe("who asks for an idle connection while all are in use", () => {
  /** A pool with one connection, and so many users of it: each begins once the one before it has ended, by `end`. */
  async function busyPool(count: number) {
    const { pool } = poolOf(1);
    const told = vi.fn();
    const users = Array.from({ length: count }, () => deferred());
    const uses = users.map(({ promise }) => pool.use(() => promise, never));
    // The first one has the connection, and the others wait for it.
    await new Promise((resolve) => setImmediate(resolve));
    const end = async (n: number) => {
      users[n]?.resolve();
      await uses[n];
    };
    return { pool, told, end };
  }

  it("is told once when a connection is given back for which nobody waits", async () => {
    const { pool, told, end } = await busyPool(1);
    expect(pool.hasIdle(told)).toBe(false);
    expect(told).not.toHaveBeenCalled();
    // A connection is idle when it is told.
    told.mockImplementation(() => expect(pool.hasIdle()).toBe(true));
    await end(0);
    expect(told).toHaveBeenCalledTimes(1);
    await pool.use(nothing, never);
    expect(told).toHaveBeenCalledTimes(1);
  });

  it("is not told when a user that waits takes the connection, but when that one gives it back", async () => {
    const { pool, told, end } = await busyPool(2);
    expect(pool.hasIdle(told)).toBe(false);
    await end(0);
    expect(told).not.toHaveBeenCalled();
    await end(1);
    expect(told).toHaveBeenCalledTimes(1);
  });

  it("is told once although it has asked twice, and again after it has asked again", async () => {
    const { pool, told, end } = await busyPool(1);
    pool.hasIdle(told);
    pool.hasIdle(told);
    await end(0);
    expect(told).toHaveBeenCalledTimes(1);
    const going = deferred();
    const use = pool.use(() => going.promise, never);
    pool.hasIdle(told);
    going.resolve();
    await use;
    expect(told).toHaveBeenCalledTimes(2);
  });

  it("is told when a connection broke, since its place is free", async () => {
    const { pool } = poolOf(1);
    const told = vi.fn();
    const use = pool.use(failing, always);
    expect(pool.hasIdle(told)).toBe(false);
    await expect(use).rejects.toThrow("it failed");
    expect(told).toHaveBeenCalledTimes(1);
  });

  it("is told when a connection could not be made, since its place is free", async () => {
    const refused = deferred();
    const connect = () => refused.promise.then(() => Promise.reject(new Error("refused")));
    const pool = new ServerPool(connect, new Hosts([{ host: "a", port: 1 }]), 1);
    const told = vi.fn();
    const use = pool.use(nothing, never);
    await new Promise((resolve) => setImmediate(resolve));
    expect(pool.hasIdle(told)).toBe(false);
    refused.resolve();
    await expect(use).rejects.toThrow("refused");
    expect(told).toHaveBeenCalledTimes(1);
  });

  it("is never told when it was answered that one is idle", async () => {
    const { pool } = poolOf(2);
    const told = vi.fn();
    const use = pool.use(nothing, never);
    expect(pool.hasIdle(told)).toBe(true);
    await use;
    expect(told).not.toHaveBeenCalled();
  });
});

describe("an idle connection", () => {
  /** A pool with this many connections, used at once and returned at 0 ms; and its clock. */
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

  it("is pinged before use, and used when it answers", async () => {
    const { pool, made, clock } = await idlePool(1, { trust: 1_000 });
    clock.mockReturnValue(1_001);
    await pool.use(nothing, never);
    expect(made).toMatchObject([{ signs: [true], destroyed: 0 }]);
  });

  it("is destroyed with the equally old ones when it does not answer, and a new one is made", async () => {
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

  it("is not pinged when it was used a moment ago, since a ping costs a round trip", async () => {
    const { pool, made, clock } = await idlePool(1, { trust: 1_000 });
    clock.mockReturnValue(1_000);
    await pool.use(nothing, never);
    expect(made).toMatchObject([{ signs: [] }]);
  });

  it("is not pinged where queries have a time limit", async () => {
    const { pool, made, clock } = await idlePool(1, {});
    clock.mockReturnValue(86_400_000);
    await pool.use(nothing, never);
    expect(made).toMatchObject([{ signs: [] }]);
  });
});

describe("with several hosts", () => {
  it("the first host that answers is used, and is tried first from then on", async () => {
    const { pool, hosts, made, refusing } = poolOf(1, "abc");
    refusing.add("a").add("b");
    await pool.use(nothing, never);
    expect(made.map(({ host }) => host)).toEqual(["c"]);
    expect(hosts.inOrder.map(({ host }) => host).join("")).toBe("cab");
  });

  it("the host of a broken connection is tried last", async () => {
    const { pool, hosts, made } = poolOf(1, "abc");
    await expect(pool.use(failing, always)).rejects.toThrow("it failed");
    expect(hosts.inOrder.map(({ host }) => host).join("")).toBe("bca");
    await pool.use(nothing, never);
    expect(made.map(({ host }) => host)).toEqual(["a", "b"]);
  });

  it("several broken connections of one host move it back once", async () => {
    const { pool, hosts } = poolOf(2, "ab");
    const uses = [pool.use(failing, always), pool.use(failing, always)];
    for (const use of uses) await expect(use).rejects.toThrow("it failed");
    expect(hosts.inOrder.map(({ host }) => host).join("")).toBe("ba");
  });

  it("the error is the last host's when all refuse", async () => {
    const { pool, refusing } = poolOf(1, "ab");
    refusing.add("a").add("b");
    await expect(pool.dedicated()).rejects.toThrow("b refuses");
  });

  it("a replica is passed over, and its connection ended", async () => {
    const { pool, hosts, made, roles } = poolOf(1, "ab");
    roles.set("a", "replica");
    await pool.use(nothing, never);
    expect(made).toMatchObject([
      { host: "a", ended: 1 },
      { host: "b", ended: 0, destroyed: 0 },
    ]);
    expect(hosts.inOrder.map(({ host }) => host).join("")).toBe("ba");
  });

  it("a host that breaks while it says whether it is a replica is passed over", async () => {
    const { pool, made, roles } = poolOf(1, "ab");
    roles.set("a", "breaks");
    await pool.use(nothing, never);
    expect(made).toMatchObject([
      { host: "a", destroyed: 1 },
      { host: "b", destroyed: 0 },
    ]);
  });

  it("the error is the replica's when no host is a primary, also when the last host refuses", async () => {
    const { pool, refusing, roles } = poolOf(1, "ab");
    roles.set("a", "replica");
    refusing.add("b");
    await expect(pool.dedicated()).rejects.toThrow("a is a replica");
  });

  it("a replica that is the only host is used", async () => {
    const { pool, made, roles } = poolOf(1);
    roles.set("a", "replica");
    await pool.use(nothing, never);
    expect(made).toMatchObject([{ host: "a", ended: 0 }]);
  });
});
