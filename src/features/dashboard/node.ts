/** A dashboard as a handler for Node's own server, Express and Fastify. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";

/**
 * A request as Express and Fastify give it: with the address before they cut off where the handler is mounted, and with the
 * body that they have read.
 */
type Incoming = IncomingMessage & { originalUrl?: string; body?: unknown; rawBody?: Buffer };

/** Milliseconds in which a client has to take something of what it is sent: open pages get a comment every 15 s. */
const idle = 60_000;

/** `ui`: a dashboard, or a function that asks for a sign-in before it calls one. A handler for `node:http`, `express.use(path, handler)`, and Fastify's `reply.hijack()` with its raw objects. */
export function toNodeHandler(
  ui: (request: Request) => Promise<Response>,
): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  const listener = getRequestListener((request) => ui(request), { overrideGlobalObjects: false });
  return async (request, response) => {
    const incoming = request as Incoming;
    response.setTimeout(idle, () => response.destroy());
    if (incoming.originalUrl !== undefined) incoming.url = incoming.originalUrl;
    if (incoming.body !== undefined && incoming.readableEnded)
      try {
        incoming.rawBody ??= bytesOf(incoming);
      } catch {
        // Such as one that is nested 100,000 levels deep.
        response.writeHead(400, { "content-type": "text/plain" }).end("400: the body cannot be read");
        return;
      }
    await listener(incoming, response);
  };
}

/** A body that was parsed, as it was before. */
function bytesOf({ body, headers }: Incoming): Buffer {
  if (Buffer.isBuffer(body)) return body;
  if (typeof body === "string") return Buffer.from(body);
  if (/urlencoded/.test(headers["content-type"] ?? "")) return Buffer.from(formOf(body ?? {}));
  return Buffer.from(JSON.stringify(body));
}

function formOf(body: object): string {
  const pairs = Object.entries(body).flatMap(([name, value]) =>
    [value].flat().map((each) => [name, String(each)]),
  );
  return new URLSearchParams(pairs as [string, string][]).toString();
}
