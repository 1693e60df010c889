/** Who may do what: the answer of `authorize`, and whether a request comes from the dashboard's own pages. */

/** What a person may be allowed to do. */
export const actions = [
  "retry",
  "cancel",
  "run",
  "edit",
  "delete",
  "enqueue",
  "pause",
  "resume",
  "limit",
  "schedule",
] as const;

/** Something that a person may do. */
export type Action = (typeof actions)[number];

/** `none`: nothing, not even looking. `read`: looking. `all`: everything. A list of actions: looking, and these. */
export type Grant = "none" | "read" | "all" | readonly Action[];

/** What `authorize` answers: what the person may do, and who it is, for the list of what was done. */
export type Authorization = Grant | { allow: Grant; actor?: string };

/** What the sender of a request may do. */
export class Access {
  readonly actor: string | null;
  readonly #allowed: ReadonlySet<Action>;

  private constructor(allowed: readonly Action[], actor: string | null) {
    this.#allowed = new Set(allowed);
    this.actor = actor;
  }

  /** Undefined: the person may not even look. @throws TypeError for an answer that is none */
  static of(answer: Authorization | undefined): Access | undefined {
    const { allow, actor = null } =
      typeof answer === "object" && answer !== null && "allow" in answer ? answer : { allow: answer };
    if (allow === "none" || allow === undefined) return undefined;
    if (actor !== null && typeof actor !== "string")
      throw new TypeError(`dashboard: authorize: actor: expected a text, got ${JSON.stringify(actor)}`);
    if (allow === "read") return new Access([], actor);
    if (allow === "all") return new Access(actions, actor);
    const unknown = Array.isArray(allow) ? allow.find((each) => !actions.includes(each)) : allow;
    if (!Array.isArray(allow) || unknown !== undefined)
      throw new TypeError(
        `dashboard: authorize: expected "none", "read", "all" or a list of ${actions.join(", ")}, got ${JSON.stringify(unknown)}`,
      );
    return new Access(allow, actor);
  }

  may(action: Action): boolean {
    return this.#allowed.has(action);
  }

  /** The same for all people who may do the same: pages are rendered once for each. */
  get key(): string {
    return [...this.#allowed].sort().join();
  }
}

/** Refuses a sender of whom nothing is known: as JSON for the API, else as a line of text. `path` is below the base path. */
export function refusal(path: string, status: 403 | 421, message: string): Response {
  if (path.startsWith("/api/")) return Response.json({ ok: false, message }, { status });
  return new Response(`${status}: ${message}`, { status });
}

/**
 * Whether a write comes from a page of the dashboard, and not from another site that the person's browser has open. Browsers
 * say so by `Sec-Fetch-Site`, those that do not (older ones, and all on plain http) by `Origin`; a program says neither, and has
 * to send an `Authorization`.
 * @param expected the only `Origin` that is taken @default that of the request's own address
 */
export function isSameOrigin({ headers, url }: Request, expected?: string): boolean {
  const [site, origin] = [headers.get("sec-fetch-site"), headers.get("origin")];
  const isOwn = origin === null ? undefined : origin === (expected ?? originOf(url, headers.get("host")));
  if (site !== null) return site === "same-origin" && (expected === undefined || isOwn !== false);
  return isOwn ?? headers.has("authorization");
}

/** The origin under which a request came: a server behind another one may know its own name by the header `Host` alone. */
function originOf(url: string, host: string | null): string {
  const { origin, protocol } = new URL(url);
  const named = `${protocol}//${host}`;
  return host !== null && URL.canParse(named) ? new URL(named).origin : origin;
}
