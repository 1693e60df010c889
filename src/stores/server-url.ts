/** URLs of database servers: one or several hosts, tried in turn. */

export interface Host {
  host: string;
  port: number;
}

/** What a URL says, the hosts apart. */
export interface ServerUrl {
  hosts: readonly Host[];
  user: string;
  password: string;
  database: string;
  parameters: Readonly<Record<string, string>>;
}

const form = /^[a-z]+:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/i;

/**
 * Reads `postgres://user:password@host:port,host:port/database?parameter=value`. What is not given is the default.
 * @throws TypeError, in which the password is not shown
 */
export function readServerUrl(url: string, defaults: { port: number; user: string }): ServerUrl {
  const [, user, password, hosts = "", database, query] = form.exec(url) ?? [];
  if (!isWellFormed(url))
    throw new TypeError(
      `openQueue: ${withoutPassword(url)} is not a URL of a database server: in names and passwords, write / as %2F, : as %3A, @ as %40, % as %25`,
    );
  const name = decodeURIComponent(database ?? "");
  if (name === "") throw new TypeError(`openQueue: the URL ${withoutPassword(url)} names no database`);
  return {
    hosts: hosts.split(",").map((host) => readHost(host, url, defaults.port)),
    user: decodeURIComponent(user || defaults.user),
    password: decodeURIComponent(password ?? ""),
    database: name,
    parameters: Object.fromEntries(new URLSearchParams(query ?? "")),
  };
}

/** A sign that should have been encoded makes a part of a password look like a host. */
function isWellFormed(url: string): boolean {
  const [address = ""] = url.split("?");
  if (!form.test(url) || address.split("@").length > 2 || /\/\/[^@]*\/[^@]*@/.test(address)) return false;
  try {
    decodeURIComponent(url);
    return true;
  } catch {
    return false;
  }
}

function readHost(text: string, url: string, defaultPort: number): Host {
  const [, host, port = String(defaultPort)] = /^(\[[^\]]+\]|[^:]*)(?::(\d+))?$/.exec(text) ?? [];
  if (host === undefined)
    throw new TypeError(`openQueue: the URL ${withoutPassword(url)} has a host that cannot be read: ${text}`);
  // A folder is where a server has its socket; in a URL its slashes are written %2F.
  return { host: decodeURIComponent(host.replace(/^\[|\]$/g, "")) || "127.0.0.1", port: Number(port) };
}

/** For messages: passwords never appear in an error or a log. */
export function withoutPassword(url: string): string {
  return url.replace(/(:\/\/[^:@/]*):.*@/, "$1:***@").replace(/([?&]password=)[^&]*/gi, "$1***");
}

/** Where a server is, for messages. */
export function nameOf({ host, port }: Host): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
