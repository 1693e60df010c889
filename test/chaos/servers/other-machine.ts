/**
 * Another machine, as far as the network is concerned: processes in a network namespace of their own, with a host name of
 * their own, and one cable to this host. When the cable is out, no packet passes, and so neither does a FIN or a RST.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { missingPackages, notInstalled } from "./installed.ts";
import type { Network } from "./network.ts";

/** The other machine's end of the cable, in its namespace. */
const inside = "eth0";

/** Worse than any other route: it counts while the cable is out. */
const last = ["metric", "9999"];

/**
 * Removes everything when its input ends, which it does when the test process ends in any way. A signal of a terminal does
 * not reach it.
 */
const guard = `cat >/dev/null
  ip link delete "$1"
  ip netns delete "$1"
  ip route delete blackhole "$2" metric 9999`;

/** @throws Error with what `ip` has printed */
const ip = (...args: string[]): string =>
  execFileSync("ip", args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

let made = 0;

/** Milliseconds within which the kernel must have removed an interface. */
const patience = 5_000;

export class OtherMachine implements AsyncDisposable {
  /** This host's end of the cable, where a server is to listen. It can be reached from this host too while the cable is out. */
  readonly network: Network;
  /** The address of the other machine. */
  readonly address: string;
  /** The command that runs another one on it, with the same process id. */
  readonly under: readonly string[];
  /** The namespace, this host's end of the cable, and the other host's name are called the same. */
  readonly #name: string;
  readonly #guard: ChildProcess;

  constructor() {
    made += 1;
    this.#name = `dbq${process.pid}-${made}`;
    const [host, other, clients] = addressesFor(4 * (process.pid + made));
    this.network = { address: host, clients };
    this.address = other;
    // Otherwise this host's workers would see its processes, which are in the same namespace of process ids.
    const named = `echo ${this.#name} >/proc/sys/kernel/hostname; exec "$@"`;
    this.under = ["ip", "netns", "exec", this.#name, "unshare", "--uts", "sh", "-c", named, "sh"];
    const args = ["-c", guard, "sh", this.#name, clients];
    this.#guard = spawn("sh", args, { stdio: ["pipe", "ignore", "ignore"], detached: true });
    this.#connect();
  }

  #connect(): void {
    const name = this.#name;
    const { address, clients } = this.network;
    if (ip("-4", "address", "show", "to", clients) !== "")
      throw new Error(`this host is in ${clients} already`);
    ip("netns", "add", name);
    ip("link", "add", name, "type", "veth", "peer", "name", inside, "netns", name);
    ip("address", "add", `${address}/30`, "dev", name);
    // While the cable is out, what the server sends must not go to a gateway, which may answer.
    ip("route", "add", "blackhole", clients, ...last);
    ip("link", "set", name, "up");
    ip("-n", name, "link", "set", "lo", "up");
    ip("-n", name, "address", "add", `${this.address}/30`, "dev", inside);
    ip("-n", name, "link", "set", inside, "up");
    // Without this, a process would be told within 3 s that nobody answers to the address.
    const [{ address: hardware }] = JSON.parse(ip("-json", "link", "show", name)) as [{ address: string }];
    ip("-n", name, "neighbour", "replace", address, "lladdr", hardware, "dev", inside, "nud", "permanent");
  }

  /** Why there can be none here; undefined when there can. */
  static unable(): string | undefined {
    if (process.platform !== "linux")
      return `it needs the network namespaces of Linux, and this is ${process.platform}`;
    if (process.getuid?.() !== 0) return "it needs root to make a network namespace";
    return notInstalled("a process in a network namespace", missingPackages({ ip: "iproute2" })) ?? refusal();
  }

  /** Takes the cable out. @returns when, in milliseconds since 1970 */
  vanish(): number {
    const at = Date.now();
    ip("link", "set", this.#name, "down");
    return at;
  }

  /** Puts the cable in again. @returns when, in milliseconds since 1970 */
  comeBack(): number {
    ip("link", "set", this.#name, "up");
    return Date.now();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#guard, "exit");
    this.#guard.stdin?.end();
    await ended;
    const end = performance.now() + patience;
    while (ip("-brief", "link", "show", "type", "veth").includes(`${this.#name}@`)) {
      if (performance.now() > end) throw new Error(`the interface ${this.#name} is not removed`);
      await sleep(20);
    }
  }
}

/** Why the kernel refuses a namespace or a cable, as in most containers; undefined when it does not. */
function refusal(): string | undefined {
  const name = `dbq${process.pid}`;
  try {
    ip("netns", "add", name);
    try {
      ip("link", "add", name, "type", "veth", "peer", "name", inside, "netns", name);
      ip("link", "delete", name);
      ip("netns", "exec", name, "unshare", "--uts", "true");
    } finally {
      ip("netns", "delete", name);
    }
    return undefined;
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    return `no network namespace can be made: ${stderr?.trim() || message}`;
  }
}

/**
 * The addresses of this host and the other one, and their net of four. They are of 198.18.0.0/15, which no network uses: it
 * is for tests of devices (RFC 2544).
 */
function addressesFor(number: number): [host: string, other: string, clients: string] {
  const first = number % 2 ** 17;
  const address = (n: number) => `198.${18 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;
  return [address(first + 1), address(first + 2), `${address(first)}/30`];
}
