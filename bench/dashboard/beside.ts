/** What open dashboards cost a drain. */
import { join } from "node:path";
import { type Benchmark, type Figures, programBeside, type Settings, type Variant } from "../benchmark.ts";
import { type Child, withChildren } from "../processes/children.ts";
import { median } from "../processes/percentile.ts";
import type { BesideCommands, BesideConfig, BesideDrain } from "./beside-process.ts";

interface BesideVariant extends Variant {
  /** Whether the worker's process serves the dashboard too. */
  readonly together: boolean;
}

/** What the ten clients have open. */
const open = [
  "/",
  "/",
  "/",
  "/",
  "/tasks",
  "/tasks?status=failed",
  "/queues",
  "/queues",
  "/workers",
  "/functions",
];

type Process = Child<BesideCommands>;

async function measureBeside({
  directory,
  synchronous,
  tasks,
  quick,
  variant,
}: Settings<BesideVariant>): Promise<Figures> {
  const { fillTables } = await import("./tables.ts");
  const path = join(directory, "dbq.db");
  await fillTables(path, quick ? 20_000 : 1_000_000);
  const count = tasks ?? (quick ? 5_000 : 400_000);
  return await withChildren(async (start) => {
    const begin = () => {
      const config: BesideConfig = { path, synchronous };
      return start<BesideCommands>(programBeside(import.meta.url, "beside-process"), config);
    };
    const worker = await begin();
    const server = variant.together ? worker : await begin();
    const port = await server.ask("listen");
    await drain(worker, count);
    return await compare({ worker, server, port }, count, quick ? 1 : 6);
  });
}

interface Processes {
  worker: Process;
  server: Process;
  port: number;
}

/** Drains in pairs, with and without clients; every other pair begins with the other one. */
async function compare({ worker, server, port }: Processes, count: number, pairs: number): Promise<Figures> {
  const alone: BesideDrain[] = [];
  const beside: BesideDrain[] = [];
  let updates = 0;
  let serving = 0;
  const drainBeside = async () => {
    await worker.ask("fill", count);
    const clients = await connect(port);
    const before = await server.ask("usage");
    beside.push(await worker.ask("drain"));
    const after = await server.ask("usage");
    clients.leave();
    serving += (after.cpu - before.cpu) / (after.at - before.at);
    updates += clients.updates();
  };
  for (let pair = 0; pair < pairs; pair += 1) {
    if (pair % 2 === 1) await drainBeside();
    alone.push(await drain(worker, count));
    if (pair % 2 === 0) await drainBeside();
  }
  const ratio = (of: keyof BesideDrain) =>
    median(alone.map((each, i) => each[of] / (beside[i]?.[of] ?? Number.NaN)));
  return {
    "tasks/s": (1_000 * count) / median(beside.map(({ took }) => took)),
    "of the drain without": ratio("took"),
    "of its CPU": ratio("cpu"),
    updates: updates / open.length / pairs,
    ...(server === worker ? {} : { "server's CPU": (100 * serving) / pairs }),
  };
}

async function drain(worker: Process, count: number): Promise<BesideDrain> {
  await worker.ask("fill", count);
  return await worker.ask("drain");
}

/** Opens the streams; resolves when each has got its first page. */
async function connect(port: number): Promise<{ updates: () => number; leave: () => void }> {
  const left = new AbortController();
  let updates = 0;
  const follow = async (page: string, onFirst: () => void) => {
    const address = `http://127.0.0.1:${port}/events?of=${encodeURIComponent(page)}`;
    const { body } = await fetch(address, { signal: left.signal });
    if (!body) throw new Error(`no events of ${page}`);
    let seen = false;
    for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
      if (!chunk.includes("event: page")) continue;
      if (seen) updates += 1;
      seen = true;
      onFirst();
    }
  };
  const first = (page: string) =>
    new Promise<void>((resolve, reject) => {
      // Leaving aborts the request.
      follow(page, resolve).catch((error) => (left.signal.aborted ? undefined : reject(error)));
    });
  await Promise.all(open.map(first));
  return { updates: () => updates, leave: () => left.abort() };
}

export const dashboardBeside: Benchmark<BesideVariant> = {
  name: "dashboard-beside",
  title: "Draining beside ten open dashboards",
  about:
    "One worker drains 400,000 no-op tasks, 100 at a time, of a file that also has the 1M tasks of dashboard-pages; with and without ten " +
    "clients that get live updates of six pages, in six pairs. The figures are medians of the pairs: the time and the worker's CPU " +
    "without clients, divided by those beside them. Updates are those that a client got during a drain, after its first page.",
  variants: [
    { name: "the dashboard in a process of its own", together: false },
    { name: "the dashboard in the worker's process", together: true },
  ],
  once: true,
  rounds: 3,
  figures: [
    { name: "tasks/s", unit: "tasks/s", better: "higher" },
    { name: "of the drain without", unit: "", better: "higher", goals: [{ must: 0.95, aim: 0.99 }] },
    { name: "of its CPU", unit: "", better: "higher", goals: [{ must: 0.95, aim: 0.99 }] },
    { name: "updates", unit: "a client", better: "higher" },
    { name: "server's CPU", unit: "% of a core", better: "lower" },
  ],
  contenders: [{ name: "dbq", measure: measureBeside }],
};
