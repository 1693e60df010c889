/**
 * A cluster of three MariaDB nodes with synchronous replication, each of which takes writes (Galera). A node may be
 * killed and join again: with its data, to which the others send what it missed, or without data, so that it copies
 * another node's.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { missingPackages, notInstalled } from "./installed.ts";
import { freePorts } from "./kept-process.ts";
import { loopback } from "./network.ts";
import { MariadbProcess, mariadbPrograms } from "./own-mariadb.ts";

const size = 3;

const provider = (): string | undefined =>
  ["/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera/libgalera_smm.so"].find(existsSync);

/** Why it cannot run here, with the missing packages; undefined when it can. */
export function noGalera(): string | undefined {
  const needed = { ...mariadbPrograms, "mariadb-backup": "mariadb-backup", socat: "socat" };
  const library = provider() === undefined ? ["galera-4"] : [];
  return notInstalled("a cluster", [...missingPackages(needed), ...library]);
}

/** The ports of one node: for the group, and for incremental and full copies. */
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

/**
 * How the nodes watch each other: as on a local network, where no packet is half a second late. With Galera's defaults
 * (1, 0.5, 5 and 15 seconds), one dead node makes all wait for 6 s. Each value must be at most the next:
 * https://galeracluster.com/library/documentation/recovery.html. `join_retrans` and `install` govern the agreement on
 * the remaining group: the first should be above a round trip, the second was half of the last one.
 *
 * `pc.recovery=no`: a killed node comes back as a new member. Recovery exists to restart a whole cluster after a power
 * cut; a node that came back alone under its old name made all three wait 8 s more.
 */
const watching = [
  "evs.keepalive_period=PT0.5S",
  "evs.inactive_check_period=PT0.5S",
  "evs.suspect_timeout=PT2S",
  "evs.inactive_timeout=PT5S",
  "evs.install_timeout=PT2.5S",
  "evs.join_retrans_period=PT0.3S",
  "pc.recovery=no",
];

const addressOf = ({ ports }: Node) => `127.0.0.1:${ports.group}`;

/** `nodes`: those that it asks for the group. */
function optionsOf(node: Node, nodes: readonly Node[]): string[] {
  const { group, increments, copies } = node.ports;
  const provided = [
    `base_port=${group}`,
    `ist.recv_addr=127.0.0.1:${increments}`,
    `gmcast.listen_addr=tcp://${addressOf(node)}`,
    ...watching,
  ];
  return [
    "--binlog-format=ROW",
    "--innodb-autoinc-lock-mode=2",
    // The other nodes have what one disk has lost.
    "--innodb-flush-log-at-trx-commit=2",
    "--wsrep-on=ON",
    `--wsrep-provider=${provider()}`,
    `--wsrep-provider-options=${provided.join(";")}`,
    "--wsrep-cluster-name=dbq",
    `--wsrep-cluster-address=gcomm://${nodes.map(addressOf).join(",")}`,
    `--wsrep-node-name=${node.name}`,
    `--wsrep-node-address=${addressOf(node)}`,
    `--wsrep-sst-receive-address=127.0.0.1:${copies}`,
    "--wsrep-sst-method=mariabackup",
    "--wsrep-sst-auth=root:",
  ];
}

/** Resolves when the node is a member of the cluster. */
const up = ({ process }: Node, options: readonly string[]): Promise<void> =>
  process.up(options, ["wsrep_local_state_comment", "Synced"]);

/**
 * Where the node's data ends. A killed node does not know it; systemd asks for it first in this way (galera_recovery).
 */
async function positionOf({ process }: Node, options: readonly string[]): Promise<string> {
  const position = await process.ask([...options, "--wsrep-recover"], /WSREP: Recovered position: ?(\S+)/);
  return `--wsrep-start-position=${position}`;
}

/** The data of a killed node when it comes back: as it was, or none. */
export type Data = "kept" | "lost";

export class Galera {
  readonly #folder: string;
  readonly #nodes: readonly Node[];

  private constructor(folder: string, nodes: readonly Node[]) {
    [this.#folder, this.#nodes] = [folder, nodes];
  }

  /** `network`: where clients reach the nodes; among themselves they use the loopback. */
  static async start(network = loopback): Promise<Galera> {
    const folder = mkdtempSync(join(tmpdir(), "dbq-galera-"));
    const ports = await freePorts(4 * size);
    const nodes = Array.from({ length: size }, (_, n): Node => {
      const [sql, group, increments, copies] = ports.slice(4 * n) as [number, number, number, number];
      const name = `n${n + 1}`;
      const process = new MariadbProcess(join(folder, name), sql, network);
      return { process, name, ports: { group, increments, copies } };
    });
    const cluster = new Galera(folder, nodes);
    const [first, ...others] = nodes as [Node, ...Node[]];
    first.process.install();
    await up(first, [...optionsOf(first, []), "--wsrep-new-cluster"]);
    for (const n of others.keys()) await cluster.join(n + 1, "lost");
    return cluster;
  }

  /** All hosts, without a database: this one first, then the others, or with `backwards` in the reverse order. */
  url(first: number, backwards = false): string {
    const all = this.#nodes.map((_, n) => this.#nodes[(first + (backwards ? size - n : n)) % size] as Node);
    return `mysql://root@${all.map(({ process }) => process.host).join(",")}/`;
  }

  get size(): number {
    return this.#nodes.length;
  }

  async kill(n: number): Promise<void> {
    await this.#nodes[n]?.process.end("SIGKILL");
  }

  /**
   * Resolves when the node is a member again. With its data, it gets what it missed; without, it gets everything, and
   * MariaDB's script sleeps 10 s before that (`wsrep_sst_mariabackup`). About 4 and 17 s, under load.
   */
  async join(n: number, data: Data): Promise<void> {
    const node = this.#nodes[n] as Node;
    const options = optionsOf(node, this.#nodes);
    if (data === "lost") node.process.wipe();
    else options.push(await positionOf(node, options));
    await up(node, options);
  }

  /** Copies the nodes' logs to a folder that is kept. */
  save(folder: string): void {
    mkdirSync(folder, { recursive: true });
    for (const { process } of this.#nodes) cpSync(process.log, join(folder, basename(process.log)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#nodes.map(({ process }) => process.end("SIGKILL")));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
