import { toNodeHandler } from "dbq-ts/dashboard";
import fastify from "fastify";
import { port, ui } from "./queue.ts";

const app = fastify();
const handler = toNodeHandler(ui);
app.addContentTypeParser("application/x-www-form-urlencoded", { parseAs: "string" }, (_, body, done) =>
  done(null, Object.fromEntries(new URLSearchParams(String(body)))),
);
app.all("/ops/dbq/*", (request, reply) => {
  reply.hijack();
  void handler(Object.assign(request.raw, { body: request.body }), reply.raw);
});

console.log(`listening on ${await app.listen({ port, host: "127.0.0.1" })}`);
