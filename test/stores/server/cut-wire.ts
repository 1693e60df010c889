/**
 * A proxy between a store and its server that can be cut without a sign to either end, as by a firewall or a lost host.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { deferred } from "../../support/queue.ts";

export interface Wire {
  /** The server's URL through the proxy. */
  readonly url: string;
  /** Resolves when a connection has been cut. */
  readonly wasCut: Promise<void>;
  /** Cuts all open connections. */
  cut(): void;
  /** Cuts the next connection on which these bytes would be sent, before they are. */
  cutBefore(bytes: string): void;
  /** Ends the next connection on which these bytes are sent, before their answer comes back. */
  loseAnswerTo(bytes: string): void;
  /** Ends each connection on which these bytes would be sent, as a host does that accepts logins and cannot write. */
  endBefore(bytes: string): void;
}

/** Closed when the test has ended. */
export async function wireTo(server: string): Promise<Wire> {
  const target = new URL(server);
  const dead = new Set<Socket>();
  const sockets = new Set<Socket>();
  const cut = deferred();
  let awaited: string | undefined;
  let refused: string | undefined;
  let unanswered: string | undefined;
  // A half-open connection stays open: a host that is cut off sends no FIN.
  const middle = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect(Number(target.port || (server.startsWith("mysql") ? 3306 : 5432)), target.hostname);
    for (const socket of [near, far]) sockets.add(socket.on("error", () => undefined));
    near.on("data", (data) => {
      if (awaited !== undefined && data.includes(awaited)) {
        awaited = undefined;
        dead.add(near);
        cut.resolve();
      }
      if (unanswered !== undefined && data.includes(unanswered)) {
        unanswered = undefined;
        dead.add(near);
        far.once("data", () => near.destroy());
        far.write(data);
      } else if (refused !== undefined && data.includes(refused)) near.destroy();
      else if (!dead.has(near)) far.write(data);
    });
    far.on("data", (data) => dead.has(near) || near.write(data));
    near.on("end", () => dead.has(near) || far.end());
    far.on("end", () => dead.has(near) || near.end());
    near.on("close", () => dead.has(near) || far.destroy());
  });
  middle.listen(0, "127.0.0.1");
  await once(middle, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    middle.close();
  });
  const url = new URL(server);
  url.hostname = "127.0.0.1";
  url.port = String((middle.address() as AddressInfo).port);
  return {
    url: url.href,
    wasCut: cut.promise,
    cut: () => {
      for (const socket of sockets) dead.add(socket);
      cut.resolve();
    },
    cutBefore: (bytes) => {
      awaited = bytes;
    },
    loseAnswerTo: (bytes) => {
      unanswered = bytes;
    },
    endBefore: (bytes) => {
      refused = bytes;
    },
  };
}
