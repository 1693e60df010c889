/** How long a process takes until it can enqueue, and until the command line has answered. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { type Benchmark, type Contender, type Figures, programBeside, type Settings } from "../benchmark.ts";
import { withQueueLocation } from "./location.ts";
import type { QueueLocation } from "./peer.ts";
import { median, percentile } from "./percentile.ts";

interface Ran {
  /** Milliseconds from before the spawn to after the exit. */
  whole: number;
  printed: string;
}

function runNode(args: readonly string[]): Ran {
  const start = performance.now();
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  const whole = performance.now() - start;
  if (status !== 0) throw new Error(`node ${args.join(" ")} ended with ${status}: ${stderr}`);
  return { whole, printed: stdout };
}

/** Runs the program several times; the first run warms the disk cache and does not count. */
function runs({ quick }: Settings, args: readonly string[]): Ran[] {
  runNode(args);
  return Array.from({ length: quick ? 5 : 20 }, () => runNode(args));
}

const whole = (ran: readonly Ran[]) => median(ran.map((one) => one.whole));

/** For a program that prints its own measurement. */
function opening(settings: Settings, program: string, path: string): Figures {
  const ran = runs(settings, [programBeside(import.meta.url, program), path]);
  const open = ran.map(({ printed }) => Number(printed));
  return { open: median(open), "open p90": percentile(open, 0.9), "whole process": whole(ran) };
}

/** The file in the package's manifest. */
function commandLine(): string {
  const manifest = createRequire(import.meta.url).resolve("dbq-ts/package.json");
  return join(dirname(manifest), JSON.parse(readFileSync(manifest, "utf8")).bin.dbq);
}

const contender = (
  name: string,
  peer: QueueLocation["peer"],
  measure: (settings: Settings, path: string) => Figures,
): Contender => ({
  name,
  measure: (settings) =>
    withQueueLocation(peer, settings, "existing.db", async ({ location }) => measure(settings, location)),
});

export const start: Benchmark = {
  name: "start",
  title: "Start of a process",
  about:
    "Plain node. `open`: milliseconds inside of a new process from before the import of the package to an open queue on a database that exists; " +
    "`whole process`: from before its spawn to after its exit. `help`: a whole `dbq --help`. Medians of 20 runs with a warm disk cache. " +
    "The floors: better-sqlite3 imported and a database opened; and node that does nothing.",
  once: true,
  figures: [
    { name: "open", unit: "ms", better: "lower", goals: [{ must: 200, aim: 80 }] },
    { name: "open p90", unit: "ms", better: "lower" },
    { name: "whole process", unit: "ms", better: "lower" },
    { name: "help", unit: "ms", better: "lower", goals: [{ must: 250, aim: 120 }] },
  ],
  contenders: [
    contender("dbq", "dbq", (settings, path) => ({
      ...opening(settings, "start-dbq", path),
      help: whole(runs(settings, [commandLine(), "--help"])),
    })),
    contender("better-sqlite3", "dbq", (settings, path) => opening(settings, "start-raw", path)),
    contender("plainjob", "plainjob", (settings, path) => opening(settings, "start-plainjob", path)),
    contender("node", "spin", (settings) => ({ "whole process": whole(runs(settings, ["-e", "0"])) })),
  ],
};
