/** A password from where libpq and pg look for it besides the URL: the heartbeat's thread needs it too. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { describe, it, onTestFinished, vi } from "vitest";
import { newWorker } from "../../conformance/arrange.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { openedPostgres } from "./stores.ts";

const server = await postgresServer();
const password = "from-the-environment";

/** AuthenticationCleartextPassword, and an ErrorResponse with SQLSTATE 28P01. */
const whoAreYou = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]);
const refusal = (() => {
  const fields = Buffer.from("SFATAL\0C28P01\0Mpassword authentication failed\0\0");
  const head = Buffer.alloc(5, "E");
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
})();

/** The server's URL through a proxy that asks for a password. */
async function guarded(url: string): Promise<string> {
  const target = new URL(url);
  const door = createServer((near) => {
    const far = connect(Number(target.port || 5432), target.hostname);
    let startup: Buffer | undefined;
    let open = false;
    const end = () => {
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) socket.on("error", end).on("close", end);
    far.on("data", (data) => near.write(data));
    near.on("data", (data: Buffer) => {
      if (open) return void far.write(data);
      if (startup === undefined) {
        startup = data;
        return void near.write(whoAreYou);
      }
      open = data.subarray(5, -1).toString() === password;
      if (open) far.write(startup);
      else near.end(refusal);
    });
  });
  door.listen(0, "127.0.0.1");
  await once(door, "listening");
  onTestFinished(() => void door.close());
  const way = new URL(url);
  way.hostname = "127.0.0.1";
  way.port = String((door.address() as AddressInfo).port);
  way.password = "";
  return way.href;
}

describe.skipIf(isMissing(server))("on Postgres", () => {
  it("a heartbeat's thread logs in with PGPASSWORD, as the queue does", async () => {
    const { url, drop } = await newSchema();
    onTestFinished(drop);
    vi.stubEnv("PGPASSWORD", password);
    onTestFinished(() => void vi.unstubAllEnvs());
    const store = await openedPostgres(await guarded(url));
    await store.register(newWorker());
    const stop = await store.keepAlive("w1", 100, () => undefined);
    onTestFinished(stop);
    // Only the thread's own connection holds the session's lock.
    const isHeld = async () => (await store.workers())[0]?.sessionLives === true;
    await vi.waitUntil(isHeld, { timeout: 5_000, interval: 20 });
  });
});
