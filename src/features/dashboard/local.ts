/** The dashboard of `dbq dashboard`: on this machine alone, for whoever has the address that it prints. */
import { randomBytes, timingSafeEqual } from "node:crypto";
import type { Queue } from "../../queue/queue.ts";
import { refusal } from "./access.ts";
import { type Dashboard, dashboard } from "./dashboard.ts";
import type { DashboardOptions } from "./options.ts";

export { toNodeHandler } from "./node.ts";

/** Names of this machine. Under any other, a page of another site could be asking (DNS rebinding). */
const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

/** A dashboard, and the token without which it shows nothing. */
export interface LocalDashboard {
  handle: Dashboard;
  /** Part of the printed address; exchanged for a cookie at the first request. A program sends it as `Authorization: Bearer`. */
  token: string;
}

/** @throws TypeError for a wrong option */
export function localDashboard(
  queue: Queue,
  options: Pick<DashboardOptions, "onError"> & { readOnly?: boolean } = {},
): LocalDashboard {
  const token = randomBytes(32).toString("base64url");
  const cookie = `dbq-${randomBytes(4).toString("hex")}`;
  const { readOnly = false, ...rest } = options;
  const ui = dashboard(queue, {
    ...rest,
    authorize: ({ headers }) => {
      const given = bearerIn(headers.get("authorization")) ?? cookieIn(headers.get("cookie"), cookie);
      if (!isSame(given, token)) return "none";
      return readOnly ? "read" : "all";
    },
  });
  const answer = async (request: Request): Promise<Response> => {
    const url = new URL(request.url);
    if (!loopback.test(request.headers.get("host") ?? ""))
      return refusal(url.pathname, 421, "this dashboard is for this machine alone");
    const given = url.searchParams.get("token");
    if (given === null || request.method !== "GET") return await ui(request);
    if (!isSame(given, token)) return refusal(url.pathname, 403, "this is not the token of this dashboard");
    url.searchParams.delete("token");
    return new Response(null, {
      status: 303,
      headers: {
        location: `${url.pathname}${url.search}`,
        "set-cookie": `${cookie}=${token}; HttpOnly; SameSite=Strict; Path=/`,
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
      },
    });
  };
  return { handle: Object.assign(answer, { close: () => ui.close() }), token };
}

/** Of a program. Undefined: the header is missing, or of another kind, which a proxy may have added. */
function bearerIn(header: string | null): string | undefined {
  return /^bearer\b(.*)$/i.exec(header ?? "")?.[1]?.trim();
}

function cookieIn(header: string | null, name: string): string | undefined {
  const pairs = (header ?? "").split(";").map((pair) => pair.trim().split("="));
  return pairs.find(([key]) => key === name)?.[1];
}

/** In constant time. */
function isSame(given: string | undefined, token: string): boolean {
  const [a, b] = [Buffer.from(given ?? ""), Buffer.from(token)];
  return a.length === b.length && timingSafeEqual(a, b);
}
