import { parse } from "node:querystring";
import { toNodeHandler } from "dbq-ts/dashboard";
import fastify from "fastify";
import { port, ui } from "./queue.ts";

const app = fastify();
const handler = toNodeHandler(ui);
// Several selected tasks are several values of one name: `parse` keeps them as an array. `maxKeys: 0` lets it keep all of them.
app.addContentTypeParser("application/x-www-form-urlencoded", { parseAs: "string" }, (_, body, done) =>
  done(null, parse(String(body), "&", "=", { maxKeys: 0 })),
);
app.all("/ops/dbq/*", (request, reply) => {
  reply.hijack();
  void handler(Object.assign(request.raw, { body: request.body }), reply.raw);
});

console.log(`listening on ${await app.listen({ port, host: "127.0.0.1" })}`);
