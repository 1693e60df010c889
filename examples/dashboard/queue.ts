/** The queue of the app, and its dashboard. A real app asks its own session who the sender is. */
import { openQueue, task } from "dbq-ts";
import { dashboard } from "dbq-ts/dashboard";

export const queue = await openQueue(process.env.DBQ_URL ?? "dashboard.db");

export const greet = task("greet", async (name: string) => `Hello ${name}`);
await queue.enqueueTask(greet, "Eva");

export const ui = dashboard(queue, {
  basePath: "/ops/dbq",
  authorize: ({ headers }) =>
    headers.get("authorization") === `Basic ${Buffer.from("admin:secret").toString("base64")}`
      ? { allow: "all", actor: "admin" }
      : "none",
});

export const port = Number(process.env.PORT ?? 3000);
