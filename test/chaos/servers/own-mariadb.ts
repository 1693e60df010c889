/** A MariaDB server of the chaos tests on a free port: to be restarted at will, or to be a node of a cluster. */
import { execFile, execFileSync } from "node:child_process";
import { cpSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { backendOf } from "../backends/backend.ts";
import { missingPackages, notInstalled } from "./installed.ts";
import { freePorts, KeptProcess } from "./kept-process.ts";
import { loopback, type Network } from "./network.ts";
import type { OwnServer } from "./own-server.ts";

/** Milliseconds within which it must be up, after any end; a node may have to copy another's data. */
const patience = 120_000;

/** Milliseconds for a start that only answers a question: it was seen to answer and then never exit. */
const answering = 20_000;

/** Its only option file: without it, scripts that it starts would archive their logs in /tmp. */
const configuration = "[sst]\nsst-log-archive=0\n";

/** The user who starts it: it runs as root only if told to. */
const user = `--user=${userInfo().username}`;

/** The programs of a server, and their package. */
export const mariadbPrograms = { mariadbd: "mariadb-server", "mariadb-install-db": "mariadb-server" };

/** Why it cannot run here; undefined when it can. */
export const noMariadb = (): string | undefined =>
  notInstalled("a MariaDB of its own", missingPackages(mariadbPrograms));

/** A net as MariaDB writes it: `198.18.0.4/255.255.255.252`. */
function withMask(net: string): string {
  const [address, bits] = net.split("/");
  const mask = 2 ** 32 - 2 ** (32 - Number(bits));
  return `${address}/${[24, 16, 8, 0].map((shift) => (mask >>> shift) & 255).join(".")}`;
}

/** What a program that ends by itself prints on stderr, and how it ended when it failed. */
async function outputOf([program, ...args]: readonly [string, ...string[]]): Promise<string> {
  try {
    return (await promisify(execFile)(program, args, { timeout: answering, killSignal: "SIGKILL" })).stderr;
  } catch (error) {
    const { code, signal, stderr } = error as { code?: unknown; signal?: unknown; stderr?: string };
    if (stderr === undefined) throw error;
    return `${stderr}\nIt ended with ${signal ?? code}.`;
  }
}

/** One server, with its data in a folder. */
export class MariadbProcess {
  readonly host: string;
  readonly #data: string;
  readonly #port: number;
  readonly #network: Network;
  #process: KeptProcess | undefined;

  constructor(data: string, port: number, network = loopback) {
    [this.#data, this.#port, this.#network] = [data, port, network];
    this.host = `${network.address}:${port}`;
  }

  get log(): string {
    return `${this.#data}.log`;
  }

  install(): void {
    const args = ["--no-defaults", `--datadir=${this.#data}`, "--auth-root-authentication-method=normal"];
    execFileSync("mariadb-install-db", [...args, user, "--skip-test-db"], { stdio: "ignore" });
    if (this.#network !== loopback) this.#admit(this.#network);
  }

  /** Lets the clients of a network in. The server is not running: these statements are its input. */
  #admit({ clients }: Network): void {
    const root = `'root'@'${withMask(clients)}'`;
    const input = `flush privileges;\ncreate user ${root};\ngrant all on *.* to ${root} with grant option;\n`;
    const args = ["--no-defaults", "--bootstrap", `--datadir=${this.#data}`, user];
    execFileSync("mariadbd", args, { input, stdio: ["pipe", "ignore", "ignore"] });
  }

  /** Deletes its data, as the loss of a disk would. */
  wipe(): void {
    rmSync(this.#data, { recursive: true, force: true });
    mkdirSync(this.#data);
  }

  /** `env`: the scripts that copy a node's data keep their temporary files in this folder too. */
  #command(options: readonly string[]): [string, ...string[]] {
    const [configured, temporary] = [`${this.#data}.cnf`, `${this.#data}.tmp`];
    writeFileSync(configured, configuration);
    // At its start, a node deletes others' leftovers in a folder of temporary files that they share.
    mkdirSync(temporary, { recursive: true });
    const files = ["datadir=", "socket=.sock", "pid-file=.pid", "tmpdir=.tmp"].map((text) => text.split("="));
    const own = files.map(([name, suffix = ""]) => `--${name}=${this.#data}${suffix}`);
    const program = ["env", `TMPDIR=${temporary}`, "mariadbd", `--defaults-file=${configured}`];
    // Deadlocks are written to its log.
    const ours = [`--bind-address=${this.#network.address}`, "--innodb-print-all-deadlocks=ON"];
    // It would ask a name server for the names of its clients, which have none.
    if (this.#network !== loopback) ours.push("--skip-name-resolve");
    return [...program, user, ...own, `--port=${this.#port}`, ...options, ...ours] as [string, ...string[]];
  }

  /**
   * Starts it with options that make it print an answer and exit. How it exits does not matter then: it was seen to hang
   * after its answer. Without an answer it is started once more, as systemd does. @returns the first group of `answer`
   */
  async ask(options: readonly string[], answer: RegExp): Promise<string> {
    // Otherwise it listens on its port before it answers, and fails when that is taken.
    const command = this.#command([...options, "--skip-networking"]);
    const said: string[] = [];
    while (said.length < 2) {
      const output = await outputOf(command);
      const found = answer.exec(output)?.[1];
      if (found !== undefined) return found;
      said.push(output.trimEnd().split("\n").slice(-20).join("\n"));
    }
    throw new Error(`${basename(this.#data)} gives no answer. It printed:\n${said.join("\nand then:\n")}`);
  }

  /**
   * Resolves when this status variable has this value. A server that crashes while it starts is started once more, as
   * systemd does: a node was seen to end with signal 11 when it came back.
   */
  async up(options: readonly string[], wanted: readonly [string, string]): Promise<void> {
    const end = performance.now() + patience;
    const errors: string[] = [];
    while (errors.length < 2) {
      const started = await KeptProcess.start(this.#command(options), this.log, undefined);
      this.#process = started;
      if (await this.#reaches(wanted, started, end)) return;
      errors.push(this.#lastError());
      // Another call has ended it, or it is still starting: a second start would not help.
      if (this.#process !== started || !started.gone) break;
    }
    throw new Error(`it does not come up: ${errors.join("\nand then: ")}`);
  }

  /** Whether the status variable gets the value before the server ends, and before this time. */
  async #reaches(
    [status, value]: readonly [string, string],
    server: KeptProcess,
    end: number,
  ): Promise<boolean> {
    while (!server.gone && performance.now() < end) {
      if ((await this.#status(status)) === value) return true;
      await sleep(50);
    }
    return false;
  }

  #lastError(): string {
    const errors = readFileSync(this.log, "utf8").match(/^.*\[ERROR\].*$/gm) ?? [];
    return errors.at(-1) ?? `no error is in its log, ${this.log}`;
  }

  async #status(name: string): Promise<string | undefined> {
    try {
      await using raw = await backendOf("mysql:").open(`mysql://root@${this.host}/`, 1_000);
      return (await raw.all<{ Value: string }>(`show status like '${name}'`))[0]?.Value;
    } catch {
      return undefined;
    }
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const ending = this.#process;
    this.#process = undefined;
    await ending?.end(signal);
  }
}

export class OwnMariadb implements OwnServer {
  readonly url: string;
  readonly #folder: string;
  readonly #process: MariadbProcess;

  private constructor(folder: string, process: MariadbProcess) {
    [this.#folder, this.#process] = [folder, process];
    this.url = `mysql://root@${process.host}/`;
  }

  static async start(network = loopback): Promise<OwnMariadb> {
    const folder = mkdtempSync(join(tmpdir(), "dbq-mariadb-"));
    const [port] = (await freePorts(1)) as [number];
    const process = new MariadbProcess(join(folder, "data"), port, network);
    process.install();
    const server = new OwnMariadb(folder, process);
    await server.up();
    return server;
  }

  async up(): Promise<void> {
    await this.#process.up([], ["threads_running", "1"]);
  }

  async down(how: "crash" | "stop"): Promise<void> {
    await this.#process.end(how === "crash" ? "SIGKILL" : "SIGTERM");
  }

  save(folder: string): void {
    // Sockets cannot be copied.
    cpSync(this.#folder, folder, { recursive: true, filter: (from) => !lstatSync(from).isSocket() });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.down("crash");
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
