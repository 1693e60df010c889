import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { port, ui } from "./queue.ts";

const app = new Hono();
app.all("/ops/dbq/*", (c) => ui(c.req.raw));

serve({ fetch: app.fetch, port, hostname: "127.0.0.1" }, (address) =>
  console.log(`listening on http://127.0.0.1:${address.port}`),
);
