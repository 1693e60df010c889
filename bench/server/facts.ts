/** What figures on a server depend on: its version and settings, and the versions of the clients. */
import type { Server } from "../benchmark.ts";
import type { Connection } from "./connection.ts";
import { withServerConnection } from "./databases.ts";
import { nodeForServers } from "./node.ts";

export interface ServerFacts {
  server: Server;
  version: string;
  /** The settings that affect durability and memory, by name. */
  settings: Record<string, string>;
}

/** The node that measures. */
export interface ServersFacts {
  node: string;
  measured: ServerFacts[];
}

const settings: Record<Server, readonly string[]> = {
  postgres: ["synchronous_commit", "fsync", "full_page_writes", "shared_buffers", "max_wal_size"],
  mariadb: [
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "innodb_buffer_pool_size",
    "innodb_log_file_size",
  ],
};

/** The facts about the servers that answer. */
export async function factsOf(servers: readonly Server[]): Promise<ServersFacts | undefined> {
  if (servers.length === 0) return undefined;
  const asked = await Promise.allSettled(servers.map((server) => ask(server)));
  const measured = asked.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  return { node: `v${nodeForServers().version}`, measured };
}

function ask(server: Server): Promise<ServerFacts> {
  return withServerConnection(server, async (connection) => ({
    server,
    version: await versionOf(server, connection),
    settings: await settingsOf(server, connection),
  }));
}

async function versionOf(server: Server, { rows }: Connection): Promise<string> {
  const text = server === "postgres" ? "show server_version" : "select version()";
  return String((await rows(text))[0]?.[0]).split(" ")[0] ?? "";
}

async function settingsOf(server: Server, { rows }: Connection): Promise<Record<string, string>> {
  const names = settings[server].map((name) => `'${name}'`).join(", ");
  const list = {
    postgres: `select name, current_setting(name) from pg_settings where name in (${names})`,
    mariadb: `show global variables where variable_name in (${names})`,
  };
  return Object.fromEntries((await rows(list[server])).map(([name, value]) => [String(name), String(value)]));
}

export function serversText({ node, measured }: ServersFacts, versions: string): string[] {
  const servers = measured.map(({ server, version, settings }) => {
    const list = Object.entries(settings).map(([name, value]) => `${name} ${value}`);
    return `${server} ${version} (${list.join(", ")})`;
  });
  return [...servers, `measured by node ${node}: ${versions}`];
}
