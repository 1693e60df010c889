/** URLs of database servers, with one host or several. */
import { withoutPassword } from "../../base/options/passwords.ts";

export interface Host {
  host: string;
  port: number;
}

/** The parts of a URL. */
export interface ServerUrl {
  hosts: readonly Host[];
  user: string;
  password: string;
  database: string;
  parameters: Readonly<Record<string, string>>;
}

const form = /^[a-z]+:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/i;

/**
 * Reads `postgres://user:password@host:port,host:port/database?parameter=value`. User, password, host and port may be
 * parameters too, as for libpq (`?host=/run/postgresql&user=me`).
 * @throws TypeError that does not show the password
 */
export function readServerUrl(url: string, defaults: { port: number; user: string }): ServerUrl {
  const [, user, password, hosts = "", database, query] = form.exec(url) ?? [];
  if (!isWellFormed(url))
    throw new TypeError(
      `openQueue: ${withoutPassword(url)} is not a URL of a database server: write it as ${/^[^:]*/.exec(url)?.[0]}://user:password@host:port/database; in names and passwords, write / as %2F, : as %3A, @ as %40, % as %25`,
    );
  const parameters = Object.fromEntries(new URLSearchParams(query ?? ""));
  const name = decodeURIComponent(database ?? "");
  if (name === "") throw new TypeError(`openQueue: the URL ${withoutPassword(url)} names no database`);
  return {
    hosts: (hosts || parameters.host || "")
      .split(",")
      .map((host) => readHost(host, url, Number(parameters.port) || defaults.port)),
    user: decodeURIComponent(user ?? "") || parameters.user || defaults.user,
    password: decodeURIComponent(password ?? "") || parameters.password || "",
    database: name,
    parameters,
  };
}

/** False when an unencoded character makes a part of the password look like a host. */
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
  const [, host, port = String(defaultPort)] = /^(\[[^\]]+\]|[^:]*)(?::(\d{1,5}))?$/.exec(text) ?? [];
  // It may be a password before a forgotten "@host".
  if (host === undefined)
    throw new TypeError(
      `openQueue: the URL ${withoutPassword(url)} has a host that cannot be read: write it as user:password@host:port`,
    );
  // A folder (in a URL with %2F for its slashes) has the server's socket.
  return { host: decodeURIComponent(host.replace(/^\[|\]$/g, "")) || "127.0.0.1", port: Number(port) };
}

/** The host in errors. */
export function nameOf({ host, port }: Host): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
