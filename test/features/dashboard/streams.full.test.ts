/** Live updates under attack: a thousand clients, and clients that never read. */
import type { Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { remoteTask, type Task, task } from "../../../src/index.ts";
import { startedWorker, uniqueName } from "../../support/queue.ts";
import { basePath, type Served, served } from "./raw.ts";

const send = remoteTask("send");
/** A test waits for rounds of updates: how long they take is the machine's business. */
const patience = { timeout: 60_000, interval: 50 };

interface Stream {
  socket: Socket;
  /** What came; a client that does not read has nothing. */
  seen: string;
}

const ask = (path: string) =>
  `GET ${basePath}/events?of=${encodeURIComponent(path)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;

function follow({ open }: Served, path: string): Stream {
  const stream: Stream = { socket: open(), seen: "" };
  stream.socket.setEncoding("utf8").on("data", (data) => {
    stream.seen += data;
  });
  stream.socket.write(ask(path));
  return stream;
}

test("of a thousand clients with live streams those beyond maxClients get 503, the others their updates, and tasks run on", async () => {
  const site = await served({ maxClients: 300, pollInterval: 250 });
  const clients = Array.from({ length: 1_000 }, () => follow(site, "/tasks?func=send"));
  const refused = () => clients.filter(({ seen }) => seen.startsWith("HTTP/1.1 503"));
  const live = () => clients.filter(({ seen }) => seen.startsWith("HTTP/1.1 200"));
  await expect.poll(() => refused().length + live().length, patience).toBe(1_000);
  expect([live().length, refused().length]).toEqual([300, 700]);
  expect(refused()[0]?.seen).toMatch(/retry-after: 30[\s\S]*too many pages are open for live updates/i);
  const ran = vi.fn();
  const work = task(uniqueName(), ran);
  const worker = await startedWorker(site.queue, { queueName: "work" });
  await site.queue.enqueueTasks(
    Array.from({ length: 200 }, () => [work.with({ queueName: "work" })] as const),
  );
  await worker.idle();
  expect(ran).toHaveBeenCalledTimes(200);
  await site.queue.enqueueTask(send, "a later one");
  await expect
    .poll(() => live().filter(({ seen }) => seen.includes("a later one")).length, patience)
    .toBe(300);
  for (const { socket } of live().slice(0, 100)) socket.destroy();
  const next = () => follow(site, "/tasks?func=send");
  await expect
    .poll(async () => {
      const again = next();
      await expect.poll(() => again.seen, patience).toMatch(/^HTTP/);
      return again.seen;
    }, patience)
    .toMatch(/^HTTP\/1.1 200/);
  expect(site.errors).toEqual([]);
}, 180_000);

test("a client that never reads its stream is given up after a bounded number of bytes, and the others get theirs", async () => {
  const long = "x".repeat(900_000);
  // Each page has 900 kB: 16 of them do not fit into the buffers of a connection.
  const redact = (shown: Task) => ({ ...shown, error: { name: "Error", message: long } });
  const site = await served({ maxClients: 2, pollInterval: 250, redact });
  const accepted: Socket[] = [];
  site.server.on("connection", (socket) => accepted.push(socket));
  const id = await site.queue.enqueueTask(send.with({ delay: "1h" }), 0);
  const deaf = site.open();
  deaf.pause();
  deaf.write(ask(`/tasks/${id}`));
  await expect.poll(() => accepted.length, patience).toBe(1);
  const other = follow(site, `/tasks/${id}`);
  await expect.poll(() => other.seen, patience).toContain("event: page");
  expect((await site.get("/events")).status).toBe(503);
  // Each change is sent once to who reads; who does not read misses all but the first ones.
  for (let change = 1; change <= 16; change += 1) {
    await site.queue.updateTask(id, { args: [`change-${change}.`] });
    await expect.poll(() => other.seen.includes(`change-${change}.`), patience).toBe(true);
    other.seen = "";
  }
  const page = 2 * 1_048_576;
  expect(accepted[0]?.writableLength).toBeLessThan(3 * page);
  const again = follow(site, "/tasks");
  await expect.poll(() => again.seen, patience).toMatch(/^HTTP\/1.1 200/);
  expect(site.errors).toEqual([]);
}, 180_000);

test("a connection whose client takes nothing for a minute is closed", async () => {
  const site = await served();
  const connected = new Promise<Socket>((resolve) => site.server.once("connection", resolve));
  const stream = follow(site, "/tasks");
  const socket = await connected;
  await expect.poll(() => stream.seen, patience).toMatch(/^HTTP\/1.1 200/);
  expect(socket.timeout).toBe(60_000);
  const closed = new Promise((resolve) => stream.socket.once("close", resolve));
  socket.emit("timeout");
  await closed;
});

test("clients that send their requests slowly hold nothing that others need", async () => {
  const site = await served();
  for (let i = 0; i < 300; i += 1) {
    const socket = site.open();
    socket.write(
      i % 2 === 0
        ? `GET ${basePath}/tasks HTTP/1.1\r\nHost: 127`
        : `POST ${basePath}/api/limits HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: x\r\nContent-Length: 100\r\n\r\n{`,
    );
  }
  const worker = await startedWorker(site.queue);
  const work = task(uniqueName(), () => "done");
  expect(await site.queue.awaitTaskResult(await site.queue.enqueueTask(work), { timeout: "60s" })).toBe(
    "done",
  );
  expect((await site.get("/api/tasks")).status).toBe(200);
  await worker.stop();
});

test("a HEAD request for live updates opens no stream", async () => {
  const site = await served({ maxClients: 1 });
  const head = `HEAD ${basePath}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`;
  for (let i = 0; i < 3; i += 1) expect((await site.send(head)).status).toBe(200);
  const stream = follow(site, "/tasks");
  await expect.poll(() => stream.seen, patience).toMatch(/^HTTP\/1.1 200/);
});

test("the stream of a page that does not make sense says so, and fills no log", async () => {
  const site = await served({ pollInterval: 250 });
  const stream = follow(site, "/tasks?limit=0");
  await expect.poll(() => stream.seen, patience).toContain("Limit: expected a whole number from 1 to 200");
  expect(site.errors).toEqual([]);
});

test("a page that cannot be read is reported once, and sent again when it can", async () => {
  let isBroken = true;
  const redact = vi.fn((shown) => {
    if (isBroken) throw new Error("no");
    return shown;
  });
  const site = await served({ pollInterval: 250, redact });
  await site.queue.enqueueTask(send, "hidden until now");
  const stream = follow(site, "/tasks");
  await expect.poll(() => stream.seen.split("event: failing").length, patience).toBeGreaterThan(3);
  expect(site.errors).toHaveLength(1);
  isBroken = false;
  await expect.poll(() => stream.seen, patience).toContain("hidden until now");
});
