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

/** @throws Error when the address cannot be used */
export async function listening(server: Server, place: Place): Promise<void> {
  try {
    await listen(server, place);
  } catch (error) {
    if (!("path" in place) || codeOf(error) !== "EADDRINUSE") throw error;
    await removeStale(place.path);
    await listen(server, place);
  }
}

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
 * @throws Error for anything else: a socket on which a process listens, or a file of another kind
 */
async function removeStale(path: string): Promise<void> {
  if (!(await lstat(path)).isSocket())
    throw new Error(`unix:${path}: there is a file that is not a socket: remove it, or listen elsewhere`);
  const inUse = new Error(
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
