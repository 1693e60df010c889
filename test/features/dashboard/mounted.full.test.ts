/** The dashboard behind real servers: Node's own, Express, Fastify and Hono, with live updates. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { parse } from "node:querystring";
import { serve } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Dashboard, dashboard, toNodeHandler } from "../../../src/features/dashboard/index.ts";
import { remoteTask } from "../../../src/index.ts";
import { temporaryQueue } from "../../support/queue.ts";

const send = remoteTask("send");
const basePath = "/ops/dbq";

const portOf = (server: Server) => (server.address() as AddressInfo).port;

/** Each starts a server with the dashboard under `basePath`, and gives its port. */
const servers: Readonly<Record<string, (ui: Dashboard) => Promise<number>>> = {
  "node:http": async (ui) => {
    const server = createServer(toNodeHandler(ui)).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await new Promise((resolve) => server.once("listening", resolve));
    return portOf(server);
  },
  "Express, which parses bodies before": async (ui) => {
    const app = express();
    app.use(express.json(), express.urlencoded());
    app.use(basePath, toNodeHandler(ui));
    const server = app.listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await new Promise((resolve) => server.once("listening", resolve));
    return portOf(server);
  },
  Fastify: async (ui) => {
    const app = fastify();
    const handler = toNodeHandler(ui);
    app.all(`${basePath}/*`, (request, reply) => {
      reply.hijack();
      const raw = Object.assign(request.raw, { body: request.body });
      void handler(raw, reply.raw);
    });
    app.addContentTypeParser("application/x-www-form-urlencoded", { parseAs: "string" }, (_, body, done) =>
      done(null, parse(String(body), "&", "=", { maxKeys: 0 })),
    );
    onTestFinished(() => app.close());
    await app.listen({ port: 0, host: "127.0.0.1" });
    return portOf(app.server);
  },
  Hono: async (ui) => {
    const app = new Hono();
    app.all(`${basePath}/*`, (c) => ui(c.req.raw));
    const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }) as Server;
    onTestFinished(() => void server.close());
    await new Promise((resolve) => server.once("listening", resolve));
    return portOf(server);
  },
};

describe.each(Object.keys(servers))("%s", (name) => {
  test("serves pages and files, and takes forms and JSON", async () => {
    const queue = await temporaryQueue();
    const ui = dashboard(queue, { basePath, authorize: () => "all" });
    onTestFinished(() => ui.close());
    const url = `http://127.0.0.1:${await servers[name]?.(ui)}${basePath}`;
    const [first, second] = await queue.enqueueTasks([
      [send, "first"],
      [send, "second"],
    ]);
    const page = await (await fetch(`${url}/tasks`, { headers: { accept: "text/html" } })).text();
    expect(page).toContain("second");
    for (const [, path] of page.matchAll(/(?:src|href)="(\/ops\/dbq\/files\/[^"]+)"/g))
      expect((await fetch(new URL(path ?? "", url))).status).toBe(200);
    const write = async (id: number, init: RequestInit) => {
      const headers = { "sec-fetch-site": "same-origin", accept: "application/json", ...init.headers };
      return await (await fetch(`${url}/api/tasks/${id}/edit`, { ...init, method: "POST", headers })).json();
    };
    expect(await write(first, { body: new URLSearchParams({ priority: "7" }) })).toMatchObject({ ok: true });
    const json = { "content-type": "application/json" };
    expect(await write(second, { body: JSON.stringify({ priority: 8 }), headers: json })).toMatchObject({
      ok: true,
    });
    expect([(await queue.getTask(first))?.priority, (await queue.getTask(second))?.priority]).toEqual([7, 8]);
    const selected = [first, second].map((id) => ["id", String(id)]);
    const fields = [["action", "cancel"], ["scope", "ids"], ["confirmed", "yes"], ...selected];
    const answer = await fetch(`${url}/tasks/bulk`, {
      method: "POST",
      headers: { "sec-fetch-site": "same-origin", accept: "application/json" },
      body: new URLSearchParams(fields as [string, string][]),
    });
    expect(await answer.json()).toMatchObject({ ok: true, changed: 2 });
  });

  test("sends a page again when it has changed, and stops when the browser leaves", async () => {
    const queue = await temporaryQueue();
    const ui = dashboard(queue, { basePath, authorize: () => "all", pollInterval: 250 });
    onTestFinished(() => ui.close());
    const url = `http://127.0.0.1:${await servers[name]?.(ui)}${basePath}`;
    const left = new AbortController();
    const response = await fetch(`${url}/events?of=${encodeURIComponent("/tasks?func=send")}`, {
      signal: left.signal,
    });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let seen = "";
    const until = async (text: string) => {
      while (!seen.includes(text)) seen += (await reader?.read())?.value ?? "";
    };
    await until("No task matches");
    await queue.enqueueTask(send, "a later one");
    await until("a later one");
    left.abort();
  });
});
