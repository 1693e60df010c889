/**
 * The node that measures on a server. The newest pg-boss and graphile-worker need 22.18; where the running one is
 * older, it is the one of npm's `node-…` packages. dbq and its floor then run on the same.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const needed = [22, 18] as const;

export interface Node {
  readonly path: string;
  readonly version: string;
}

let found: Node | undefined;

export function nodeForServers(): Node {
  found ??= suffices(process.versions.node) ? running() : (packaged() ?? running());
  return found;
}

/** Why the peers on servers cannot be measured on this machine. */
export async function noNodeForPeers(): Promise<string | undefined> {
  const { version } = nodeForServers();
  return suffices(version) ? undefined : `it needs node ${needed.join(".")}, and this is ${version}`;
}

function running(): Node {
  return { path: process.execPath, version: process.versions.node };
}

/** Installed only on systems that have such a package. */
function packaged(): Node | undefined {
  const name = `node-${process.platform}-${process.arch}`;
  const require = createRequire(import.meta.url);
  try {
    const manifest = require.resolve(`${name}/package.json`);
    const { version } = require(manifest) as { version: string };
    const path = join(dirname(manifest), "bin/node");
    return existsSync(path) && suffices(version) ? { path, version } : undefined;
  } catch {
    return undefined;
  }
}

function suffices(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > needed[0] || (major === needed[0] && minor >= needed[1]);
}
