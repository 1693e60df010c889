/** A dashboard over a queue of a test, and requests to it. */
import { onTestFinished } from "vitest";
import { type Dashboard, type DashboardOptions, dashboard } from "../../../src/features/dashboard/index.ts";
import type { Queue } from "../../../src/index.ts";
import { temporaryQueue } from "../../support/queue.ts";

export const origin = "https://ops.example";

export interface Desk {
  queue: Queue;
  ui: Dashboard;
  /** The errors that no answer carried. */
  errors: unknown[];
  get(path: string, headers?: Record<string, string>): Promise<Response>;
  /** As a browser sends a form of the dashboard. */
  post(
    path: string,
    fields?: Record<string, string> | string[][],
    headers?: Record<string, string>,
  ): Promise<Response>;
  /** As a program does. */
  api(path: string, body?: object): Promise<{ status: number; body: Record<string, unknown> }>;
}

export const asBrowser = { accept: "text/html", "sec-fetch-site": "same-origin" };

/** @param options `authorize` is "all" by default */
export async function openDesk(options: DashboardOptions = {}, given?: Queue): Promise<Desk> {
  const queue = given ?? (await temporaryQueue());
  const errors: unknown[] = [];
  const ui = dashboard(queue, {
    authorize: () => "all",
    onError: (error) => errors.push(error),
    ...options,
  });
  onTestFinished(() => ui.close());
  const url = (path: string) => `${origin}${options.basePath ?? ""}${path}`;
  const host = new URL(origin).host;
  return {
    queue,
    ui,
    errors,
    get: (path, headers = {}) =>
      ui(new Request(url(path), { headers: { host, accept: "text/html", ...headers } })),
    post: (path, fields = {}, headers = {}) =>
      ui(
        new Request(url(path), {
          method: "POST",
          body: new URLSearchParams(fields as Record<string, string>),
          headers: { host, ...asBrowser, ...headers },
        }),
      ),
    api: async (path, body) => {
      const init = body && { method: "POST", body: JSON.stringify(body) };
      const headers = { host, "content-type": "application/json", authorization: "Bearer x" };
      const response = await ui(new Request(url(path), { ...init, headers }));
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    },
  };
}
