/**
 * A cluster of one's own: three MariaDB nodes that replicate synchronously, each of which takes writes (Galera). A node may
 * be killed, and joined again: with what it has, to which it is sent what it missed, or with nothing, and it takes a copy
 * of another's data.
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

/**
 * How the nodes watch each other: as on a network of one place, where a packet is never half a second late. What Galera
 * has by default (1, 0.5, 5 and 15 seconds) keeps all of them waiting 6 s when one dies. Each must be at most the next:
 * https://galeracluster.com/library/documentation/recovery.html. `join_retrans`, `install`: of what they then agree on
 * who is left; the first wants to be above a round trip, the second was half of the last of them.
 *
 * `pc.recovery=no`: who was killed comes back as somebody else. It is there to bring a whole cluster up again after a power
 * cut; a node that comes back alone under its old name made all three wait 8 s more.
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
    // What one disk has lost, the other nodes have.
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

/** Resolves when it takes part. */
const up = ({ process }: Node, options: readonly string[]): Promise<void> =>
  process.up(options, ["wsrep_local_state_comment", "Synced"]);

/** Where its data ends, which a node that was killed does not know by itself: what systemd asks it first (galera_recovery). */
async function positionOf({ process }: Node, options: readonly string[]): Promise<string> {
  const said = await process.ask([...options, "--wsrep-recover"]);
  const [, position] = /WSREP: Recovered position: ?(\S+)/.exec(said) ?? [];
  if (position === undefined) throw new Error(`it does not say where its data ends: ${said}`);
  return `--wsrep-start-position=${position}`;
}

/** What a node that was killed finds when it comes back: its data as it was, or nothing. */
export type Data = "kept" | "lost";

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
    const [first, ...others] = nodes as [Node, ...Node[]];
    first.process.install();
    await up(first, [...optionsOf(first, []), "--wsrep-new-cluster"]);
    for (const n of others.keys()) await cluster.join(n + 1, "lost");
    return cluster;
  }

  /** Its hosts, this one first, and the others after it or, `backwards`, before it; without a database. */
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
   * Resolves when it takes part again. With its data, it is sent what it missed; without, it is sent all, for which the
   * script of MariaDB sleeps 10 s before it begins (`wsrep_sst_mariabackup`): about 4 and 17 s, under load.
   */
  async join(n: number, data: Data): Promise<void> {
    const node = this.#nodes[n] as Node;
    const options = optionsOf(node, this.#nodes);
    if (data === "lost") node.process.wipe();
    else options.push(await positionOf(node, options));
    await up(node, options);
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
