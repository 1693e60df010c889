/**
 * A cluster of one's own: three MariaDB nodes that replicate synchronously, each of which takes writes (Galera). A node may
 * be killed, and joined again: it takes a copy of another's data then.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { freePorts } from "./kept-process.ts";
import { isInstalled, MariadbProcess, noMariadb } from "./own-mariadb.ts";

const size = 3;

const provider = (): string | undefined =>
  ["/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera/libgalera_smm.so"].find(existsSync);

/** Why there can be none, by the packages that are missing; undefined where there can. */
export function noGalera(): string | undefined {
  const missing = [
    ...(noMariadb() === undefined ? [] : ["mariadb-server"]),
    ...(provider() === undefined ? ["galera-4"] : []),
    ...(isInstalled("mariadb-backup") ? [] : ["mariadb-backup"]),
    ...(isInstalled("socat") ? [] : ["socat"]),
  ];
  return missing.length === 0
    ? undefined
    : `it starts a cluster; these packages are not installed: ${missing.join(", ")}`;
}

/** Ports of one node: of the group, of the copies that it takes, small and whole. */
interface Ports {
  group: number;
  increments: number;
  copies: number;
}

interface Node {
  process: MariadbProcess;
  name: string;
  ports: Ports;
}

const addressOf = ({ ports }: Node) => `127.0.0.1:${ports.group}`;

function optionsOf(node: Node): string[] {
  const { group, increments, copies } = node.ports;
  const listens = `base_port=${group};ist.recv_addr=127.0.0.1:${increments};gmcast.listen_addr=tcp://${addressOf(node)}`;
  return [
    "--binlog-format=ROW",
    "--innodb-autoinc-lock-mode=2",
    // What one disk has lost, the other nodes have.
    "--innodb-flush-log-at-trx-commit=2",
    "--wsrep-on=ON",
    `--wsrep-provider=${provider()}`,
    `--wsrep-provider-options=${listens}`,
    "--wsrep-cluster-name=dbq",
    `--wsrep-node-name=${node.name}`,
    `--wsrep-node-address=${addressOf(node)}`,
    `--wsrep-sst-receive-address=127.0.0.1:${copies}`,
    "--wsrep-sst-method=mariabackup",
    "--wsrep-sst-auth=root:",
  ];
}

export class Galera {
  readonly #folder: string;
  readonly #nodes: readonly Node[];

  private constructor(folder: string, nodes: readonly Node[]) {
    [this.#folder, this.#nodes] = [folder, nodes];
  }

  static async start(): Promise<Galera> {
    const folder = mkdtempSync(join(tmpdir(), "dbq-galera-"));
    const ports = await freePorts(4 * size);
    const nodes = Array.from({ length: size }, (_, n): Node => {
      const [sql, group, increments, copies] = ports.slice(4 * n) as [number, number, number, number];
      const name = `n${n + 1}`;
      const process = new MariadbProcess(join(folder, name), sql);
      return { process, name, ports: { group, increments, copies } };
    });
    const cluster = new Galera(folder, nodes);
    for (const { process } of nodes) process.install();
    for (const [n, node] of nodes.entries()) await cluster.#join(node, nodes.slice(0, n));
    return cluster;
  }

  /** Resolves when it takes part. `others`: where the group is; none: it begins one. */
  async #join(node: Node, others: readonly Node[]): Promise<void> {
    const address = `--wsrep-cluster-address=gcomm://${others.map(addressOf).join(",")}`;
    const begins = others.length === 0 ? ["--wsrep-new-cluster"] : [];
    await node.process.up([...optionsOf(node), address, ...begins], ["wsrep_local_state_comment", "Synced"]);
  }

  /** Its hosts, this one first; without a database. */
  url(first: number): string {
    const hosts = this.#nodes.map(({ process }) => process.host);
    return `mysql://root@${[...hosts.slice(first), ...hosts.slice(0, first)].join(",")}/`;
  }

  get size(): number {
    return this.#nodes.length;
  }

  async kill(n: number): Promise<void> {
    await this.#nodes[n]?.process.end("SIGKILL");
  }

  async join(n: number): Promise<void> {
    await this.#join(this.#nodes[n] as Node, this.#nodes);
  }

  /** Copies what the nodes have said to where it will stay. */
  save(folder: string): void {
    mkdirSync(folder, { recursive: true });
    for (const { process } of this.#nodes) cpSync(process.log, join(folder, basename(process.log)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#nodes.map(({ process }) => process.end("SIGKILL")));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
