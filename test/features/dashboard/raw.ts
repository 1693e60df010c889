/** A dashboard behind Node's own server, and requests as bytes: a hostile client is bound to no library. */
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import {
  type Dashboard,
  type DashboardOptions,
  dashboard,
  toNodeHandler,
} from "../../../src/features/dashboard/index.ts";
import type { Queue } from "../../../src/index.ts";
import { temporaryQueue } from "../../support/queue.ts";

export interface Served {
  queue: Queue;
  ui: Dashboard;
  server: Server;
  port: number;
  /** The errors that no answer carried. */
  errors: unknown[];
  /** Opens a connection; it is destroyed after the test. */
  open(): Socket;
  /** Sends these bytes, and gives all that came until the server closed the connection. */
  send(bytes: string): Promise<Answer>;
  get(path: string, headers?: string): Promise<Answer>;
  /** A POST of a program: JSON, unless the content type is given. */
  post(path: string, body: string, type?: string): Promise<Answer>;
}

export interface Answer {
  status: number;
  text: string;
}

export const basePath = "/ops/dbq";

/** @param options `authorize` is "all" by default */
export async function served(options: DashboardOptions = {}): Promise<Served> {
  const queue = await temporaryQueue();
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const ui = dashboard(queue, { basePath, authorize: () => "all", onError, ...options });
  const server = createServer(toNodeHandler(ui));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await ui.close();
    server.closeAllConnections();
    server.close();
  });
  const open = () => {
    const socket = connect(port, "127.0.0.1").on("error", () => undefined);
    sockets.push(socket);
    return socket;
  };
  const send = async (bytes: string) => await answerOf(open(), bytes);
  const line = (method: string, path: string) =>
    `${method} ${path.startsWith("/") ? basePath : ""}${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\nAccept: application/json\r\n`;
  return {
    ...{ queue, ui, server, port, errors, open, send },
    get: async (path, headers = "") => await send(`${line("GET", path)}${headers}\r\n`),
    post: async (path, body, type = "application/json") =>
      await send(
        `${line("POST", path)}Authorization: Bearer x\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      ),
  };
}

async function answerOf(socket: Socket, bytes: string): Promise<Answer> {
  let text = "";
  socket.setEncoding("utf8").on("data", (data) => {
    text += data;
  });
  socket.write(bytes, "latin1");
  await new Promise((resolve) => socket.once("close", resolve));
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text };
}
