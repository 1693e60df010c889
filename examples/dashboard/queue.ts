/** The queue of the app, and its dashboard. A real app asks its own session who the sender is. */
import { createHash, timingSafeEqual } from "node:crypto";
import { openQueue, task } from "dbq-ts";
import { dashboard } from "dbq-ts/dashboard";

export const queue = await openQueue(process.env.DBQ_URL ?? "dashboard.db");

export const greet = task("greet", async (name: string) => `Hello ${name}`);
await queue.enqueueTask(greet, "Eva");

const hashed = (text: string) => createHash("sha256").update(text).digest();
const account = hashed(`admin:${process.env.DASHBOARD_PASSWORD ?? "secret"}`);

function isAdmin({ headers }: Request): boolean {
  const [, given = ""] = /^Basic (.+)$/i.exec(headers.get("authorization") ?? "") ?? [];
  return timingSafeEqual(hashed(Buffer.from(given, "base64").toString()), account);
}

const board = dashboard(queue, {
  basePath: "/ops/dbq",
  authorize: (request) => (isAdmin(request) ? { allow: "all", actor: "admin" } : "none"),
});

/** The dashboard, behind the question of a browser for a name and a password. */
export const ui = async (request: Request): Promise<Response> =>
  isAdmin(request)
    ? await board(request)
    : new Response("Sign in.", { status: 401, headers: { "www-authenticate": 'Basic realm="dbq"' } });

export const port = Number(process.env.PORT ?? 3000);
