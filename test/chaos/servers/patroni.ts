/**
 * Two Postgres servers under Patroni, with an etcd: one is the primary, the other its synchronous standby, which Patroni
 * promotes when the primary is gone. A killed primary comes back as the standby of the new one.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openRaw } from "../backends/backend.ts";
import { missingPackages, notInstalled } from "./installed.ts";
import { freePorts, KeptProcess, killWithChildren, type User, userFor } from "./kept-process.ts";
import { noStandby, programs } from "./own-postgres.ts";

/** Milliseconds within which a standby must follow, or be promoted. */
const patience = 90_000;

/** Milliseconds between two looks. */
const often = 50;

/** Why it cannot run here, with the missing packages; undefined when it can. */
export function noPatroni(): string | undefined {
  const missing = missingPackages({ patroni: "patroni", etcd: "etcd-server" });
  return notInstalled("a primary and a standby", missing) ?? noStandby();
}

/** What is killed: the server, which its Patroni notices at once, or the whole machine, for which its lease has to end. */
export type Loss = "server" | "machine";

interface Member {
  name: string;
  /** Its data, and beside it the files with these suffixes: ".yml", ".log", ".pgpass". */
  data: string;
  port: number;
  /** The port on which Patroni tells the state of the cluster. */
  api: number;
  patroni?: KeptProcess;
}

const hostOf = ({ port }: Member) => `127.0.0.1:${port}`;

/**
 * Patroni's shortest times: its lease of 20 s can be no shorter. `primary_start_timeout`: it promotes the standby at once
 * when the primary has crashed, instead of trying to start it again.
 */
const cluster = {
  ttl: 20,
  loop_wait: 1,
  retry_timeout: 3,
  primary_start_timeout: 0,
  synchronous_mode: true,
  postgresql: {
    use_pg_rewind: true,
    parameters: {
      max_connections: 200,
      wal_log_hints: "on",
      // After a promotion, the standby asks for the new timeline this often.
      wal_retrieve_retry_interval: "500ms",
    },
  },
};

/** A file of YAML, of which JSON is a part. */
const configurationOf = (member: Member, etcdPort: number) =>
  JSON.stringify({
    scope: "dbq",
    name: member.name,
    restapi: { listen: `127.0.0.1:${member.api}`, connect_address: `127.0.0.1:${member.api}` },
    etcd3: { hosts: [`127.0.0.1:${etcdPort}`] },
    bootstrap: { dcs: cluster, initdb: [{ encoding: "UTF8" }, "no-sync"] },
    postgresql: {
      listen: hostOf(member),
      connect_address: hostOf(member),
      data_dir: member.data,
      bin_dir: programs(),
      pgpass: `${member.data}.pgpass`,
      authentication: { superuser: { username: "postgres" }, replication: { username: "postgres" } },
      basebackup: [{ checkpoint: "fast" }],
      parameters: { unix_socket_directories: "" },
      pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
    },
  });

/** When its input ends, as with the test process, it kills the servers: Patroni leaves them running. */
const guard = `cat >/dev/null; for data; do kill -9 "$(head -n 1 "$data/postmaster.pid")"; done 2>/dev/null`;

export class Patroni {
  readonly #folder: string;
  readonly #user: User | undefined;
  readonly #members: readonly Member[];
  readonly #etcd: KeptProcess;
  readonly #guard: ChildProcess;

  private constructor(folder: string, user: User | undefined, members: readonly Member[], etcd: KeptProcess) {
    [this.#folder, this.#user, this.#members, this.#etcd] = [folder, user, members, etcd];
    const args = ["-c", guard, "sh", ...members.map(({ data }) => data)];
    this.#guard = spawn("sh", args, { stdio: ["pipe", "ignore", "ignore"], detached: true });
  }

  /** Resolves when the standby follows synchronously. */
  static async start(): Promise<Patroni> {
    const user = userFor("postgres");
    const folder = mkdtempSync(join(tmpdir(), "dbq-patroni-"));
    if (user) chownSync(folder, user.uid, user.gid);
    const [client, peer, ...ports] = (await freePorts(6)) as [number, number, ...number[]];
    const members = ["n1", "n2"].map((name, n): Member => {
      const [port, api] = ports.slice(2 * n) as [number, number];
      return { name, data: join(folder, name), port, api };
    });
    for (const member of members) writeFileSync(`${member.data}.yml`, configurationOf(member, client));
    const store = await KeptProcess.start(etcdCommand(folder, client, peer), join(folder, "etcd.log"), user);
    const started = new Patroni(folder, user, members, store);
    for (const n of members.keys()) await started.up(n);
    await started.synchronous();
    return started;
  }

  /** Both hosts, without a database of their own. */
  get url(): string {
    return `postgres://postgres@${this.#members.map(hostOf).join(",")}/postgres`;
  }

  /** Starts the Patroni of a member. */
  async up(n: number): Promise<void> {
    const member = this.#members[n] as Member;
    const command = ["patroni", `${member.data}.yml`];
    member.patroni = await KeptProcess.start(command, `${member.data}.log`, this.#user);
  }

  /** Waits until there is a synchronous standby. @returns the primary's number */
  async synchronous(): Promise<number> {
    const end = performance.now() + patience;
    for (; performance.now() < end; await sleep(often)) {
      const roles = await this.#roles();
      if (roles.get("sync_standby") === "streaming" || roles.get("sync_standby") === "running")
        return this.#members.findIndex(({ name }) => name === roles.get("leader"));
    }
    throw new Error("no standby follows the primary");
  }

  /** The state of each role, and the name of the leader, as the first Patroni tells that answers. */
  async #roles(): Promise<Map<string, string>> {
    for (const { api } of this.#members) {
      try {
        const answer = await fetch(`http://127.0.0.1:${api}/cluster`);
        const { members } = (await answer.json()) as {
          members: { name: string; role: string; state: string }[];
        };
        return new Map(members.map(({ name, role, state }) => [role, role === "leader" ? name : state]));
      } catch {
        // It was killed.
      }
    }
    return new Map();
  }

  /**
   * Kills a member, and resolves when one takes writes again. @returns whether that is the other one: a killed server may come
   * back so soon that Patroni promotes it instead
   */
  async lose(n: number, loss: Loss): Promise<boolean> {
    const lost = this.#members[n] as Member;
    if (loss === "machine") await lost.patroni?.end("SIGKILL");
    killWithChildren(pidOf(lost));
    const end = performance.now() + patience;
    for (; performance.now() < end; await sleep(often))
      for (const member of this.#members) if (await takesWrites(member)) return member !== lost;
    throw new Error("no server is promoted");
  }

  /** Copies the logs to a folder that is kept. */
  save(folder: string): void {
    mkdirSync(folder, { recursive: true });
    for (const { name, data } of this.#members) cpSync(`${data}.log`, join(folder, `${name}.log`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#members.map((member) => member.patroni?.end("SIGKILL")));
    await this.#etcd.end("SIGKILL");
    this.#guard.stdin?.end();
    await once(this.#guard, "exit");
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

function etcdCommand(folder: string, client: number, peer: number): string[] {
  const [clients, peers] = [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`];
  return [
    ...["etcd", "--data-dir", join(folder, "etcd"), "--unsafe-no-fsync", "--log-level", "warn"],
    ...["--listen-client-urls", clients, "--advertise-client-urls", clients],
    ...["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers],
    ...["--initial-cluster", `default=${peers}`],
  ];
}

const pidOf = ({ data }: Member) => Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]);

async function takesWrites(member: Member): Promise<boolean> {
  try {
    await using raw = await openRaw(`postgres://postgres@${hostOf(member)}/postgres`);
    await raw.run("create temporary table written as select 1 as one");
    return true;
  } catch {
    return false;
  }
}
