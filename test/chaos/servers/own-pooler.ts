/** PgBouncer and pgpool in front of a Postgres of the tests, each on a free port, to be restarted at will. */
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openRaw } from "../backends/backend.ts";
import { freePorts, KeptProcess, killWithChildren, userFor } from "./kept-process.ts";

/** Milliseconds within which it must answer. */
const patience = 30_000;

export type PoolerName = "PgBouncer in transaction mode" | "PgBouncer in session mode" | "pgpool";

interface PoolerKind {
  package: string;
  program: string;
  /** Its files, by name. The first one is the configuration. */
  files(settings: { folder: string; ports: readonly number[]; server: URL }): Record<string, string>;
  args(folder: string): readonly string[];
  /** Whether a client keeps its connection to the server from one transaction to the next. */
  sessions: boolean;
}

const pgbouncer = (mode: "transaction" | "session"): PoolerKind => ({
  package: "pgbouncer",
  program: "/usr/sbin/pgbouncer",
  files: ({ ports: [port], server }) => ({
    "pgbouncer.ini": `
[databases]
* = host=${server.hostname} port=${server.port} user=${server.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
max_client_conn = 500
default_pool_size = ${mode === "transaction" ? 10 : 150}
${mode === "session" ? "ignore_startup_parameters = options" : ""}
`,
  }),
  args: (folder) => ["-q", join(folder, "pgbouncer.ini")],
  sessions: mode === "session",
});

const pgpool: PoolerKind = {
  package: "pgpool2",
  program: "/usr/sbin/pgpool",
  files: ({ folder, ports: [port, pcpPort], server }) => ({
    "pgpool.conf": `
backend_clustering_mode = 'streaming_replication'
backend_hostname0 = '${server.hostname}'
backend_port0 = ${server.port}
backend_flag0 = 'DISALLOW_TO_FAILOVER'
listen_addresses = '127.0.0.1'
port = ${port}
socket_dir = '${folder}'
pcp_listen_addresses = '127.0.0.1'
pcp_port = ${pcpPort}
pcp_socket_dir = '${folder}'
pid_file_name = '${folder}/pid'
logdir = '${folder}'
enable_pool_hba = off
sr_check_user = '${server.username}'
num_init_children = 100
max_pool = 1
load_balance_mode = off
sr_check_period = 0
`,
    "pcp.conf": "",
    "pool_hba.conf": "",
    pool_passwd: "",
  }),
  args: (folder) => [
    ...["-n", "-f", join(folder, "pgpool.conf")],
    ...["-F", join(folder, "pcp.conf"), "-a", join(folder, "pool_hba.conf")],
  ],
  sessions: true,
};

export const poolerKinds: Readonly<Record<PoolerName, PoolerKind>> = {
  "PgBouncer in transaction mode": pgbouncer("transaction"),
  "PgBouncer in session mode": pgbouncer("session"),
  pgpool,
};

/** Why they cannot run here; undefined when they can. */
export function noPoolers(): string | undefined {
  const missing = Object.values(poolerKinds).filter(({ program }) => !existsSync(program));
  const packages = [...new Set(missing.map((kind) => kind.package))];
  return packages.length === 0
    ? undefined
    : `there is no ${missing[0]?.program}: install ${packages.join(" and ")}`;
}

export class OwnPooler implements AsyncDisposable {
  readonly #server: string;
  readonly #folder: string;
  readonly #command: readonly string[];
  readonly #port: number;
  #process: KeptProcess | undefined;

  private constructor(server: string, folder: string, command: readonly string[], port: number) {
    this.#server = server;
    this.#folder = folder;
    this.#command = command;
    this.#port = port;
  }

  /** @param server the URL of a server that trusts its clients */
  static async start(name: PoolerName, server: string): Promise<OwnPooler> {
    const kind = poolerKinds[name];
    const folder = mkdtempSync(join(tmpdir(), "dbq-pooler-"));
    const ports = await freePorts(2);
    const files = Object.entries(kind.files({ folder, ports, server: new URL(server) }));
    for (const [file, text] of files) writeFileSync(join(folder, file), text);
    const user = userFor("postgres");
    if (user)
      for (const file of ["", ...files.map(([each]) => each)])
        chownSync(join(folder, file), user.uid, user.gid);
    const pooler = new OwnPooler(server, folder, [kind.program, ...kind.args(folder)], ports[0] as number);
    await pooler.up();
    return pooler;
  }

  /** A database of the server, through the pooler. */
  through(database: string): string {
    const url = new URL(database);
    url.host = `127.0.0.1:${this.#port}`;
    return url.href;
  }

  async up(): Promise<void> {
    const log = join(this.#folder, "log");
    this.#process = await KeptProcess.start(this.#command, log, userFor("postgres"));
    const end = performance.now() + patience;
    while (!(await answers(this.through(this.#server)))) {
      if (performance.now() > end) throw new Error(`it does not come up: see ${log}`);
      await sleep(20);
    }
  }

  async kill(): Promise<void> {
    const { pid } = this.#process ?? {};
    // The children of pgpool would keep its port.
    if (pid !== undefined) killWithChildren(pid);
    await this.#process?.end("SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    await using raw = await openRaw(url);
    await raw.all("select 1 as one");
    return true;
  } catch {
    return false;
  }
}
