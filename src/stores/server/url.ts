/** URLs of database servers, with one host or several. */
import { withoutPassword } from "../../base/options/passwords.ts";

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
 * Reads `postgres://user:password@host:port,host:port/database?parameter=value`. What stands before the
 * database may be a parameter too, as for libpq (`?host=/run/postgresql&user=me`). What is not given is the default.
 * @throws TypeError, in which the password is not shown
 */
export function readServerUrl(url: string, defaults: { port: number; user: string }): ServerUrl {
  const [, user, password, hosts = "", database, query] = form.exec(url) ?? [];
  if (!isWellFormed(url))
    throw new TypeError(
      `openQueue: ${withoutPassword(url)} is not a URL of a database server: in names and passwords, write / as %2F, : as %3A, @ as %40, % as %25`,
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
  const [, host, port = String(defaultPort)] = /^(\[[^\]]+\]|[^:]*)(?::(\d{1,5}))?$/.exec(text) ?? [];
  // It may be a password, whose "@host" was forgotten: it is not shown.
  if (host === undefined)
    throw new TypeError(
      `openQueue: the URL ${withoutPassword(url)} has a host that cannot be read: write it as user:password@host:port`,
    );
  // A folder is where a server has its socket; in a URL its slashes are written %2F.
  return { host: decodeURIComponent(host.replace(/^\[|\]$/g, "")) || "127.0.0.1", port: Number(port) };
}

/** Where a server is, for messages. */
export function nameOf({ host, port }: Host): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
