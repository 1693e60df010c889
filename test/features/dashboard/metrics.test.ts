/** What Prometheus gets from a dashboard. */
import { expect, test, vi } from "vitest";
import { metricsText, remoteTask } from "../../../src/index.ts";
import { openDesk, origin } from "./requests.ts";

const missing = vi.hoisted(() => new Set<string>());

vi.mock("../../../src/base/runtime/packages.ts", async (original) => {
  const real = await original<typeof import("../../../src/base/runtime/packages.ts")>();
  return {
    ...real,
    importPackage: (name: string) => real.importPackage(missing.has(name) ? `no-such-${name}` : name),
  };
});

test("a scrape gets what metricsText gives, as text, by the same authorisation as a page", async () => {
  const { queue, ui } = await openDesk({
    basePath: "/ops/dbq",
    authorize: ({ headers }) => (headers.get("authorization") === "Bearer scrape" ? "read" : "none"),
  });
  await queue.enqueueTasks([[remoteTask("send")], [remoteTask("send").with({ delay: "1h" })]] as const);
  const scrape = (headers: Record<string, string>) =>
    ui(new Request(`${origin}/ops/dbq/metrics`, { headers }));
  const found = await scrape({ authorization: "Bearer scrape" });
  expect([found.status, found.headers.get("content-type")]).toEqual([
    200,
    "text/plain; version=0.0.4; charset=utf-8",
  ]);
  const text = await found.text();
  expect(text).toContain('dbq_tasks{queue="default",status="scheduled"} 1');
  const withoutAge = (metrics: string) => metrics.replace(/^(dbq_oldest_pending_seconds\{.*) .*$/gm, "$1");
  expect(withoutAge(text)).toBe(withoutAge(await metricsText(queue)));
  const refused = await scrape({ authorization: "Bearer guess" });
  expect([refused.status, await refused.text()]).toEqual([403, expect.not.stringContaining("dbq_tasks")]);
});

test("without prom-client a scrape is answered with what to install", async () => {
  missing.add("prom-client");
  const { get, errors } = await openDesk();
  const response = await get("/metrics", { accept: "text/plain" });
  missing.clear();
  expect([response.status, await response.json(), errors]).toEqual([
    501,
    { ok: false, message: 'metrics: the package "prom-client" is missing: npm install prom-client' },
    [],
  ]);
});
