/** `dashboard`: answers the requests for pages, JSON, files and live updates. */
import { createHash } from "node:crypto";
import { type Context, Hono } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { getPathNoStrict } from "hono/utils/url";
import { present } from "../../base/values/present.ts";
import { redacted } from "../../base/values/redaction.ts";
import { redactOf, showing } from "../operate/shown.ts";
import { internalsOf, type Queue } from "../queue.ts";
import { Access, isSameOrigin, refusal } from "./access.ts";
import {
  actOnMany,
  actOnTask,
  bulkOf,
  cap,
  countBulk,
  type Done,
  Forbidden,
  Missing,
  mustActOnMany,
  type ReadFields,
} from "./actions.ts";
import { pathHere, wholePath } from "./address.ts";
import { fieldsOf, TooLarge } from "./body.ts";
import { script, style } from "./client/embedded.ts";
import type { Fields } from "./fields.ts";
import { Live } from "./live.ts";
import { Look, Unavailable } from "./look.ts";
import { type DashboardOptions, type ReadOptions, readDashboardOptions } from "./options.ts";
import { type AnyPage, BadQuery, type PageContext } from "./page.ts";
import { answerPage, bulkPage, framed, problem, problemPage } from "./pages/answers.tsx";
import type { Frame } from "./pages/layout.tsx";
import { pages } from "./pages/pages.ts";
import { tasksText } from "./pages/ui.tsx";
import { mustBeSingle, mustKnow } from "./query.ts";
import { anew, ofOpenPages, SharedReads } from "./reads.ts";
import { steer } from "./steering.ts";

/** A dashboard: answers requests. */
export interface Dashboard {
  (request: Request): Promise<Response>;
  /** Ends the live updates and closes the dashboard's connections. The queue stays open. */
  close(): Promise<void>;
}

const hashed = (name: string, type: string, text: string) => ({
  path: `/files/${name}-${createHash("sha256").update(text).digest("hex").slice(0, 12)}.${type}`,
  text,
});

const files = { script: hashed("dashboard", "js", script), style: hashed("dashboard", "css", style) };

/** Of every answer. Nothing is run, shown in a frame or sent to a form of another site. */
const headers = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
    "frame-ancestors 'none'; base-uri 'none'",
  "x-frame-options": "DENY",
  "x-content-type-options": "nosniff",
  "referrer-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  "cache-control": "no-store",
} as const;

/** Errors whose message is for the sender. */
const answers = [
  [BadQuery, 400],
  [Forbidden, 403],
  [Missing, 404],
  [TooLarge, 413],
  [Unavailable, 501],
] as const;

/** The most characters of an address. Node's own server takes 16 KiB with all headers. */
const longestAddress = 8_192;

interface Env {
  Variables: { access: Access };
}

type FollowEnv = Env & { Bindings: { access: Access } };

/**
 * A dashboard of this queue, for any framework that knows `Request` and `Response`; `toNodeHandler` makes it a handler for
 * Node's own server, Express and Fastify. Closed by default: without `authorize` every answer is 403.
 * @throws TypeError for a wrong option, or what is not a queue
 */
export function dashboard(queue: Queue, options?: DashboardOptions): Dashboard {
  const read = readDashboardOptions(options);
  // Said now, and not at the first request.
  internalsOf(queue);
  const desk = new Desk(queue, read);
  const handle = async (request: Request) => withHeaders(await desk.app.fetch(request));
  return Object.assign(handle, { close: () => desk.close() });
}

function withHeaders(response: Response): Response {
  for (const [name, value] of Object.entries(headers))
    if (!response.headers.has(name)) response.headers.set(name, value);
  return response;
}

class Desk {
  readonly app: Hono<Env>;
  readonly #queue: Queue;
  readonly #options: ReadOptions;
  readonly #redacts: boolean;
  readonly #visible: PageContext["visible"];
  readonly #live: Live;
  readonly #shared = new SharedReads();
  readonly #followed: Hono<FollowEnv>;
  #look: Promise<Look> | undefined;
  #isClosed = false;

  constructor(queue: Queue, options: ReadOptions) {
    this.#queue = queue;
    this.#options = options;
    const { redact: own, onError } = options;
    const ofQueue = redactOf(queue);
    const show = showing(ofQueue, onError);
    this.#redacts = (own ?? ofQueue) !== undefined;
    this.#visible = own ? (task) => redacted(own, show(task)) : show;
    this.#live = new Live(options.pollInterval, options.maxClients, options.onError);
    this.app = this.#routes();
    this.#followed = this.#pagesToFollow();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#live.close();
    const look = await this.#look?.catch(() => undefined);
    await look?.close();
  }

  /** Connects at the first request. After a failure, at the next one. */
  #open(): Promise<Look> {
    if (this.#isClosed) return Promise.reject(new BadQuery("the dashboard is closed"));
    this.#look ??= Look.open(this.#queue);
    this.#look.catch(() => {
      this.#look = undefined;
    });
    return this.#look;
  }

  // ---- routes --------------------------------------------------------------------------------

  #routes(): Hono<Env> {
    const { basePath, origin } = this.#options;
    // A path that another framework would read in another way is not found.
    const getPath = (request: Request) => wholePath(request, getPathNoStrict(request), basePath);
    const app = new Hono<Env>({ getPath }).basePath(basePath === "" ? "/" : basePath);
    app.use(async (c, next) => {
      const access = await this.#accessOf(c);
      const path = below(c.req.path, basePath);
      if (!access) return refusal(path, 403, "you may not see this dashboard");
      if (c.req.method === "POST" && !isSameOrigin(c.req.raw, origin))
        return refusal(path, 403, "this did not come from a page of the dashboard");
      c.set("access", access);
      if (c.req.url.length > longestAddress)
        return await this.#problem(c, 414, `the address has more than ${longestAddress} characters`);
      return await next();
    });
    for (const { path, text } of Object.values(files))
      app.get(path, (c) =>
        c.body(text, 200, {
          "content-type": path.endsWith(".js") ? "text/javascript; charset=utf-8" : "text/css; charset=utf-8",
          "cache-control": "private, max-age=31536000, immutable",
        }),
      );
    app.get("/events", (c) => this.#events(c));
    app.get("/metrics", (c) => this.#metrics(c));
    for (const page of pages) {
      app.get(page.path, (c) => this.#page(c, page));
      app.get(`/api${page.path === "/" ? "/overview" : page.path}`, (c) => this.#json(c, page));
    }
    // Before the actions on one task, whose id could be "bulk".
    for (const prefix of ["", "/api"]) app.post(`${prefix}/tasks/bulk`, (c) => this.#bulk(c));
    app.post("/api/tasks/:id/:action", (c) =>
      this.#act(
        c,
        async (look, access, read) =>
          await actOnTask(look, access, c.req.param("id"), c.req.param("action"), read),
      ),
    );
    for (const kind of ["queues", "functions", "schedules"] as const)
      for (const path of [`/api/${kind}/:name/:action`, `/api/${kind}/:action`])
        app.post(path, (c) => this.#steer(c, kind, c.req.param("action") ?? ""));
    app.post("/api/limits", (c) => this.#steer(c, "limits", "limit"));
    app.notFound((c) => this.#problem(c, 404, "there is nothing under this address"));
    app.onError((error, c) => this.#failed(c, error));
    return app as unknown as Hono<Env>;
  }

  async #accessOf(c: Context<Env>): Promise<Access | undefined> {
    const { authorize } = this.#options;
    return authorize && Access.of(await authorize(c.req.raw));
  }

  async #contextOf(
    c: Context<Env>,
    query: URLSearchParams,
    { ages = anew, isApi = false } = {},
  ): Promise<PageContext> {
    const look = await this.#open();
    return {
      look,
      reader: look.reader,
      reads: this.#shared.of(look, ages),
      access: c.get("access"),
      base: this.#options.basePath,
      params: c.req.param() as Record<string, string>,
      query,
      isWhole: isApi || this.#redacts,
      redacts: this.#redacts,
      visible: this.#visible,
    };
  }

  #frame(c: Context<Env>, title: string, path: string, live?: string): Frame {
    const { basePath: base } = this.#options;
    const menu = pages.flatMap((page) =>
      page.menu === undefined ? [] : [{ path: page.path, name: page.menu }],
    );
    const { actor } = c.get("access") ?? { actor: null };
    return {
      base,
      title,
      menu,
      path,
      live,
      actor,
      files: { script: files.script.path, style: files.style.path },
    };
  }

  // ---- reading -------------------------------------------------------------------------------

  async #page(c: Context<Env>, page: AnyPage): Promise<Response> {
    const { searchParams, search } = new URL(c.req.url);
    const context = await this.#contextOf(c, searchParams);
    const data = await page.load(context);
    if (data === undefined) return await this.#problem(c, 404, "there is no such task");
    const path = below(c.req.path, this.#options.basePath);
    const of = new URLSearchParams({ of: `${path}${search}` });
    const live = `${this.#options.basePath}/events?${of}`;
    return c.html(framed(this.#frame(c, page.title(data), path, live), await page.view(data, context)));
  }

  async #json(c: Context<Env>, page: AnyPage): Promise<Response> {
    const query = new URL(c.req.url).searchParams;
    mustKnow("parameter", query.keys(), page.accepts ?? []);
    mustBeSingle(query);
    const data = await page.load(await this.#contextOf(c, query, { isApi: true }));
    return data === undefined ? c.json({ ok: false, message: "there is no such task" }, 404) : c.json(data);
  }

  /** A scrape of Prometheus. */
  async #metrics(c: Context<Env>): Promise<Response> {
    const look = await this.#open();
    const type = "text/plain; version=0.0.4; charset=utf-8";
    return c.body(await look.metrics(), 200, { "content-type": type });
  }

  /** The events of the page under the address `of`. */
  async #events(c: Context<Env>): Promise<Response> {
    // Nobody would read the events, or leave.
    if (c.req.raw.method === "HEAD") return c.body(null, 200);
    const of = c.req.query("of") ?? "/";
    // Whatever `of` is, it is a path of this made-up host.
    const address = new URL(`http://dashboard${of.startsWith("/") ? "" : "/"}${of}`);
    const { signal } = c.req.raw;
    return await this.#followed.fetch(new Request(address, { signal }), { access: c.get("access") });
  }

  /** The addresses of the pages, as `/events` gets them. */
  #pagesToFollow(): Hono<FollowEnv> {
    const app = new Hono<FollowEnv>({ strict: false });
    app.use(async (c, next) => {
      c.set("access", c.env.access);
      return await next();
    });
    for (const page of pages) app.get(page.path, (c) => this.#follow(c as unknown as Context<Env>, page));
    app.notFound((c) => c.json({ ok: false, message: "there is no page under this address" }, 404));
    app.onError((error) => {
      throw error;
    });
    return app;
  }

  async #follow(c: Context<Env>, page: AnyPage): Promise<Response> {
    const of = new URL(c.req.url);
    const ages = ofOpenPages(this.#options.pollInterval);
    const context = await this.#contextOf(c, of.searchParams, { ages });
    const render = async () => {
      try {
        const data = await page.load(context);
        if (data === undefined) return "<h1>There is no such task any more.</h1>";
        return String(await page.view(data, context));
      } catch (error) {
        if (error instanceof BadQuery) return String(await problem(error.message, `${context.base}/`));
        throw error;
      }
    };
    const key = `${of.pathname}${of.search} ${context.access.key}`;
    const stream = this.#live.open(key, render, c.req.raw.signal, context.access.actor);
    if (!stream) return c.text("too many pages are open for live updates", 503, { "retry-after": "30" });
    return new Response(stream, {
      headers: { "content-type": "text/event-stream", "x-accel-buffering": "no" },
    });
  }

  // ---- acting --------------------------------------------------------------------------------

  async #act(
    c: Context<Env>,
    act: (look: Look, access: Access, read: ReadFields) => Promise<Done>,
  ): Promise<Response> {
    const read = () => fieldsOf(c.req.raw, present({ name: c.req.param("name") }));
    return await this.#answer(c, await act(await this.#open(), c.get("access"), read));
  }

  #steer(c: Context<Env>, kind: Parameters<typeof steer>[2], action: string): Promise<Response> {
    return this.#act(c, (look, access, read) => steer(look, access, kind, action, read));
  }

  async #bulk(c: Context<Env>): Promise<Response> {
    const access = c.get("access");
    mustActOnMany(access);
    const fields = await fieldsOf(c.req.raw);
    const bulk = bulkOf(fields, access);
    const look = await this.#open();
    if (bulk.isPreview || (!bulk.isConfirmed && !wantsJson(c))) {
      const counted = await countBulk(look, bulk);
      const message = `${counted.complete ? "" : "More than "}${tasksText(counted.count)}`;
      if (wantsJson(c)) return c.json({ ok: true, message, ...counted, cap });
      const context = await this.#contextOf(c, new URLSearchParams());
      return c.html(
        bulkPage(this.#frame(c, "Many tasks", "/tasks"), context, { ...bulk, ...counted, cap, fields }),
      );
    }
    const done = await actOnMany(look, access, bulk);
    const { next = null } = done;
    const more = next === null ? undefined : { ...fields, after: next };
    return await this.#answer(c, done, more);
  }

  /** @param more the fields with which an action on many tasks goes on */
  #answer(c: Context<Env>, done: Done, more?: Fields): Response | Promise<Response> {
    if (wantsJson(c)) return c.json(done);
    const back = backOf(c, this.#options);
    const frame = this.#frame(c, done.ok ? "Done" : "Not done", "/tasks");
    const to = `${this.#options.basePath}/tasks/bulk`;
    return c.html(answerPage(frame, done, back, more && { to, fields: more }));
  }

  // ---- problems ------------------------------------------------------------------------------

  async #failed(c: Context<Env>, error: unknown): Promise<Response> {
    for (const [kind, status] of answers)
      if (error instanceof kind) return await this.#problem(c, status, error.message);
    this.#options.onError(error, `${c.req.method} ${c.req.path}`);
    // The message may hold what `redact` would have left out.
    return await this.#problem(c, 500, "this did not work: the app's log has the reason");
  }

  async #problem(c: Context<Env>, status: ContentfulStatusCode, message: string): Promise<Response> {
    if (wantsJson(c) || !c.get("access")) return c.json({ ok: false, message }, status);
    return c.html(problemPage(this.#frame(c, `${status}`, ""), message, backOf(c, this.#options)), status);
  }
}

/** Whether a program asks, and not a person's browser. */
function wantsJson(c: Context): boolean {
  const accept = c.req.header("accept") ?? "";
  const isJson = /\bjson\b/.test(c.req.header("content-type") ?? "");
  if (isJson || accept.includes("application/json")) return true;
  return !accept.includes("text/html");
}

/** The page that the person came from, if it is one of the dashboard's. */
function backOf(c: Context, { basePath, origin }: ReadOptions): string {
  const referer = c.req.header("referer") ?? "";
  const from = URL.canParse(referer) ? new URL(referer) : undefined;
  const path = pathHere(from?.pathname ?? "");
  const isOurs = from?.host === new URL(origin ?? c.req.url).host && path.startsWith(`${basePath}/`);
  return isOurs && from ? `${path}${from.search}` : `${basePath}/`;
}

const below = (path: string, base: string) => path.slice(base.length).replace(/(?<=.)\/$/, "") || "/";
