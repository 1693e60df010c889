/** Where a Manager listens, and how it takes over the unix socket of one that was killed. */
import { lstat, rename, unlink } from "node:fs/promises";
import { connect, type Server } from "node:net";
import { type Reader, wrong } from "../../base/options/validators.ts";

/** Where to listen. */
export type Place = { path: string } | { host: string; port: number };

export const placeOf: Reader<Place> = (value, name) => {
  const text = typeof value === "string" ? value : "";
  if (/^unix:./.test(text)) return { path: text.slice("unix:".length) };
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(port) > 65_535)
    throw wrong(name, '"host:port", such as "127.0.0.1:7420", or "unix:" and a path', value);
  return { host, port: Number(port) };
};

/** The address cannot be used. */
export class ListenError extends Error {
  override readonly name = "ListenError";
}

/** @throws ListenError */
export async function listening(server: Server, place: Place): Promise<void> {
  try {
    await listen(server, place);
  } catch (error) {
    if (!("path" in place) || codeOf(error) !== "EADDRINUSE") throw explained(error, place);
    await removeStale(place.path);
    await listen(server, place);
  }
}

/** Names the address, and says what the system's code means here. */
function explained(error: unknown, place: Place): Error {
  const at = "path" in place ? `unix:${place.path}` : `${place.host}:${place.port}`;
  const code = String(codeOf(error));
  const reason = ("path" in place ? socketReasons : reasons)[code] ?? (error as Error).message;
  return new ListenError(`${at}: ${reason}`, { cause: error });
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: "another process listens there: stop it, or listen elsewhere",
  EADDRNOTAVAIL: "this machine has no such address",
  ENOTFOUND: "there is no such host",
  EACCES: "this user may not listen on this port",
};

/** Node reports a folder that is missing as EACCES, too. */
const socketReasons: Readonly<Record<string, string>> = {
  EACCES: "the folder is not there, or this user may not write into it",
  EINVAL: "the path is longer than a socket's may be",
};

async function listen(server: Server, place: Place): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(place, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/**
 * Removes the socket that a killed process has left. It is moved aside before the last look: of two Managers that start at once, one
 * may have replaced it between the look and the removal.
 * @throws ListenError for anything else: a socket on which a process listens, or a file of another kind
 */
async function removeStale(path: string): Promise<void> {
  if (!(await lstat(path)).isSocket())
    throw new ListenError(
      `unix:${path}: there is a file that is not a socket: remove it, or listen elsewhere`,
    );
  const inUse = new ListenError(
    `unix:${path}: another process listens on this socket: stop it, or listen elsewhere`,
  );
  if (await isServed(path)) throw inUse;
  const aside = `${path}.${process.pid}`;
  await rename(path, aside);
  if (await isServed(aside)) {
    await rename(aside, path);
    throw inUse;
  }
  await unlink(aside);
}

/** Whether a process accepts connections there. Any failure but a refusal may be that of one that is busy. */
async function isServed(path: string): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect({ path });
    const end = (served: boolean) => {
      socket.destroy();
      resolve(served);
    };
    socket.once("connect", () => end(true));
    socket.once("error", (error) => end(codeOf(error) !== "ECONNREFUSED"));
  });
}

const codeOf = (error: unknown): unknown => (error as NodeJS.ErrnoException).code;
