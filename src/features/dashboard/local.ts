/** The dashboard of `dbq dashboard`: on this machine alone, for whoever has the address that it prints. */
import { randomBytes, timingSafeEqual } from "node:crypto";
import type { Queue } from "../queue.ts";
import { refusal } from "./access.ts";
import { pathHere, wholePath } from "./address.ts";
import { type Dashboard, dashboard } from "./dashboard.ts";
import { type DashboardOptions, readDashboardOptions } from "./options.ts";

export { toNodeHandler } from "./node.ts";

/** Names of this machine. Under any other, a page of another site could be asking (DNS rebinding). */
const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

/** A dashboard, and the token without which it shows nothing. */
export interface LocalDashboard {
  handle: Dashboard;
  /** Part of the printed address; exchanged for a cookie at the first request. A program sends it as `Authorization: Bearer`. */
  token: string;
}

/** Sessions of browsers that are known. With one more, the oldest has to open the printed address again. */
const mostSessions = 1_000;

export interface LocalOptions extends Pick<DashboardOptions, "onError" | "origin" | "basePath"> {
  readOnly?: boolean;
}

/**
 * @param options `origin`: that of a proxy in front of it, whose name is then one of this machine's
 * @throws TypeError for a wrong option
 */
export function localDashboard(queue: Queue, options: LocalOptions = {}): LocalDashboard {
  const token = randomText();
  const { readOnly = false, ...rest } = options;
  const { origin, basePath } = readDashboardOptions(rest);
  // Not the token: browsers send the cookies of a host to all of its ports.
  const sessions = new Set<string>();
  const isSession = ({ headers }: Request) =>
    cookiesIn(headers.get("cookie"), cookieName(headers)).some((value) => sessions.has(value));
  const ui = dashboard(queue, {
    ...rest,
    authorize: (request) => {
      const given = bearerIn(request.headers.get("authorization"));
      if (given === undefined ? !isSession(request) : !isSame(given, token)) return "none";
      return readOnly ? "read" : "all";
    },
  });
  const answer = async (request: Request): Promise<Response> => {
    const url = new URL(request.url);
    const host = request.headers.get("host") ?? "";
    if (!loopback.test(host) && (origin === undefined || host !== new URL(origin).host))
      return refusal(url.pathname, 421, "this dashboard is for this machine alone");
    const given = url.searchParams.get("token");
    if (given === null || request.method !== "GET") return await ui(request);
    if (!isSame(given, token)) return refusal(url.pathname, 403, "this is not the token of this dashboard");
    url.searchParams.delete("token");
    const session = randomText();
    sessions.add(session);
    for (const oldest of sessions) if (sessions.size > mostSessions) sessions.delete(oldest);
    const secure = origin?.startsWith("https:") ? "; Secure" : "";
    return new Response(null, {
      status: 303,
      headers: {
        location: `${pathHere(wholePath(request, url.pathname, basePath))}${url.search}`,
        "set-cookie": `${cookieName(request.headers)}=${session}; HttpOnly; SameSite=Strict; Path=${basePath || "/"}${secure}`,
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
      },
    });
  };
  return { handle: Object.assign(answer, { close: () => ui.close() }), token };
}

const randomText = () => randomBytes(32).toString("base64url");

/** By the port: two dashboards of one host would overwrite each other's cookie. */
const cookieName = (headers: Headers) => `dbq-${/:(\d+)$/.exec(headers.get("host") ?? "")?.[1] ?? "default"}`;

/** Of a program. Undefined: the header is missing, or of another kind, which a proxy may have added. */
function bearerIn(header: string | null): string | undefined {
  return /^bearer\b(.*)$/i.exec(header ?? "")?.[1]?.trim();
}

/** All of this name: another port, or another path, may have set one more. */
function cookiesIn(header: string | null, name: string): string[] {
  const pairs = (header ?? "").split(";").map((pair) => pair.trim().split("="));
  return pairs.flatMap(([key, value]) => (key === name && value !== undefined ? [value] : []));
}

/** In constant time. */
function isSame(given: string, token: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(token)];
  return a.length === b.length && timingSafeEqual(a, b);
}
