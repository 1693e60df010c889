/** How long the dashboard's pages take over a million tasks. */
import { join } from "node:path";
import type { Benchmark, Figures, Server, Settings } from "../benchmark.ts";
import { percentile } from "../processes/percentile.ts";
import { noServer, withDatabase } from "../server/databases.ts";
import { type Measured, measured, onwards } from "./addresses.ts";

/** Pages of one filter that are measured, beside one from the middle of all tasks. */
const pagesOfFilter = 3;

type Ask = (address: string, as?: string) => Promise<Response>;

async function measurePages(location: string, { tasks, quick }: Settings): Promise<Figures> {
  const count = tasks ?? (quick ? 20_000 : 1_000_000);
  const { fillTables } = await import("./tables.ts");
  await fillTables(location, count);
  return await timePages(location, count, quick ? 2 : 20);
}

/** Asks for each page `rounds` times, in turns, so that changes of the machine over time affect all alike. */
export async function timePages(location: string, count: number, rounds: number): Promise<Figures> {
  const { openQueue } = await import("dbq-ts");
  const { dashboard } = await import("dbq-ts/dashboard");
  await using queue = await openQueue(location);
  const ui = dashboard(queue, { authorize: () => "all" });
  const ask: Ask = (address, accept = "text/html") =>
    ui(new Request(`http://localhost${address}`, { headers: { accept } }));
  const all: { of: Measured; addresses: string[]; times: number[] }[] = [];
  for (const of of measured(count))
    all.push({
      of,
      addresses: (await Promise.all(of.addresses.map((each) => walk(ask, each, count)))).flat(),
      times: [],
    });
  const cpu = process.cpuUsage();
  for (let round = 0; round < rounds; round += 1)
    for (const { addresses, times } of all)
      for (const address of addresses) times.push(await timed(ask, address));
  const { user, system } = process.cpuUsage(cpu);
  const looks: number[] = [];
  for (let round = 0; round < 2 * rounds; round += 1) {
    const begun = performance.now();
    await queue.listCauses();
    looks.push(performance.now() - begun);
  }
  await ui.close();
  const asked = all.flatMap(({ times }) => times);
  return {
    "all pages, p50": percentile(asked, 0.5),
    "all pages, p95": percentile(asked, 0.95),
    "all pages, CPU": (user + system) / 1_000 / asked.length,
    "the slowest": Math.max(...all.map(({ times }) => percentile(times, 0.95))),
    "listCauses, p50": percentile(looks, 0.5),
    "listCauses, p95": percentile(looks, 0.95),
    ...Object.fromEntries(all.map(({ of, times }) => [of.name, percentile(times, 0.95)])),
  };
}

/** The first pages of a filter, and one far down. */
async function walk(ask: Ask, address: string, count: number): Promise<string[]> {
  if (!address.startsWith("/tasks?")) return [address];
  const found = [address, onwards(address, Math.floor(count / 2))];
  for (let last = address; found.length <= pagesOfFilter; ) {
    const answer = await ask(`/api${last}`, "application/json");
    const { next } = (await answer.json()) as { next: number | null };
    if (next === null) break;
    last = onwards(address, next);
    found.push(last);
  }
  return found;
}

async function timed(ask: Ask, address: string): Promise<number> {
  const begun = performance.now();
  const answer = await ask(address);
  const html = await answer.text();
  const took = performance.now() - begun;
  if (answer.status !== 200 || !html.includes("</main>"))
    throw new Error(`${address}: ${answer.status} ${html.slice(0, 500)}`);
  return took;
}

const about =
  "A database of 1M tasks as a month leaves them: 60 functions, 8 queues, 100,000 failed ones with stacks and two attempts each, 80,000 " +
  "pending, 20,000 scheduled, 500 running, 5,000 groups, requests, keys, tags, 40 schedules, 20 workers, and of 30 days the statistics and the " +
  "kinds of failures, 43,200 rows by the hour. " +
  "Each page is asked for 20 times, in turns with all others: milliseconds from the request to the last byte of its HTML, at p95, in the " +
  "dashboard's process. Of each filter, the first three pages and one from the middle are asked for. CPU is the mean of that process for a page.";

const goal = [{ must: 100, aim: 30 }];
const figures: Benchmark["figures"] = [
  { name: "all pages, p50", unit: "ms", better: "lower" },
  { name: "all pages, p95", unit: "ms", better: "lower", goals: goal },
  { name: "all pages, CPU", unit: "ms", better: "lower" },
  { name: "the slowest", unit: "ms", better: "lower", goals: goal },
  { name: "listCauses, p50", unit: "ms", better: "lower" },
  { name: "listCauses, p95", unit: "ms", better: "lower", goals: [{ must: 50, aim: 50 }] },
  ...measured(0).map(({ name }) => ({ name, unit: "ms", better: "lower" as const })),
];

export const dashboardPages: Benchmark = {
  name: "dashboard-pages",
  title: "The dashboard's pages over a million tasks",
  about,
  once: true,
  figures,
  contenders: [
    { name: "dbq", measure: (settings) => measurePages(join(settings.directory, "dbq.db"), settings) },
  ],
};

const onServer = (server: Server, name: string, title: string): Benchmark => ({
  name,
  title: `${title}: the dashboard's pages over a million tasks`,
  about,
  on: server,
  once: true,
  figures,
  contenders: [
    {
      name: "dbq",
      missing: noServer(server),
      measure: (settings) => withDatabase(server, (url) => measurePages(url, settings)),
    },
  ],
});

export const postgresDashboardPages = onServer("postgres", "pg-dashboard-pages", "Postgres");
export const mariadbDashboardPages = onServer("mariadb", "mariadb-dashboard-pages", "MariaDB");
