/**
 * Where the time of a drain goes, from a CPU profile that `npm run bench -- --only drain --cpu-prof FOLDER` has
 * written: `npx tsx bench/shares.ts --tasks 50000 FOLDER/*`. Only the measured drain counts, without the start, the
 * warm-up and the filling.
 */
import { readFileSync } from "node:fs";
import { Command, InvalidArgumentError } from "commander";
import { table } from "./table.ts";

/** The parts of V8's profile that are read here. */
interface Profile {
  readonly nodes: readonly ProfileNode[];
  /** `samples` holds node ids, and this the microseconds since the sample before. */
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: Frame;
  readonly children?: readonly number[];
}

interface Frame {
  readonly functionName: string;
  readonly url: string;
}

/** The first kind that fits. A native function's time counts for its caller, as with the driver's functions. */
const kinds: readonly { name: string; fits: (frame: Frame) => boolean }[] = [
  { name: "garbage collection", fits: ({ functionName }) => functionName === "(garbage collector)" },
  { name: "the event loop: polling, waiting", fits: ({ functionName }) => functionName === "(idle)" },
  { name: "BEGIN and COMMIT", fits: ({ functionName }) => functionName === "sqliteTransaction" },
  {
    name: "statements: SQLite and the driver",
    fits: ({ functionName, url }) =>
      (url.endsWith("stores/sqlite/connection.js") && /^(#execute|#once|)$/.test(functionName)) ||
      (url.endsWith("drain/floor.js") && functionName === "turn"),
  },
  {
    name: "values to and from JSON",
    fits: ({ functionName, url }) =>
      url.endsWith("src/base/values/codec.js") ||
      (url.endsWith("drain/floor.js") && functionName === "attempt"),
  },
  { name: "AsyncLocalStorage", fits: ({ url }) => /async_hooks|async_local_storage/.test(url) },
  { name: "the rest of dbq", fits: ({ url }) => url.includes("/dist/src/") },
  { name: "node, V8, and the handler", fits: () => true },
];

/** Functions on the stack of a drain, and of the filling before it. */
const draining = ["#settleAndClaim", "attempt"];
const filling = ["insertOne", "rawInsertMany", "fill"];

/** The names of the functions on the stack of each node. */
function stacksOf({ nodes }: Profile): Map<number, readonly string[]> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const stacks = new Map<number, readonly string[]>();
  const visit = (node: ProfileNode | undefined, above: readonly string[]): void => {
    if (!node) return;
    const names = [...above, node.callFrame.functionName];
    stacks.set(node.id, names);
    for (const id of node.children ?? []) visit(byId.get(id), names);
  };
  visit(nodes[0], []);
  return stacks;
}

type Shares = ReadonlyMap<string, number>;

/** Microseconds of each kind between the last sample of the filling and the last of the drain. */
function sharesOf(profile: Profile, stacks: ReadonlyMap<number, readonly string[]>): Shares {
  const among = (names: readonly string[]) => (id: number) =>
    stacks.get(id)?.some((name) => names.includes(name)) ?? false;
  const from = profile.samples.findLastIndex(among(filling)) + 1;
  const to = profile.samples.findLastIndex(among(draining));
  if (to <= from) throw new Error("one of these files is not a profile of a drain");
  const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]));
  const shares = new Map(kinds.map(({ name }) => [name, 0]));
  for (let i = from; i < to; i += 1) {
    const frame = frames.get(profile.samples[i] ?? 0);
    const kind = frame && kinds.find(({ fits }) => fits(frame))?.name;
    if (kind) shares.set(kind, (shares.get(kind) ?? 0) + (profile.timeDeltas[i + 1] ?? 0));
  }
  return shares;
}

/** The shares of dbq and of its floor, separately. */
function read(files: readonly string[]): Map<string, Shares[]> {
  const all = new Map<string, Shares[]>();
  for (const file of files) {
    const profile: Profile = JSON.parse(readFileSync(file, "utf8"));
    const stacks = stacksOf(profile);
    const ours = [...stacks.values()].some((names) => names.includes("#settleAndClaim"));
    const name = ours ? "dbq" : "floor";
    all.set(name, [...(all.get(name) ?? []), sharesOf(profile, stacks)]);
  }
  return all;
}

/** Prints the means over the profiles of each. */
function print(files: readonly string[], { tasks }: { tasks: number }): void {
  const measured = [...read(files)].sort();
  const mean = (shares: readonly Shares[], of: (one: Shares) => number) =>
    (shares.reduce((sum, one) => sum + of(one), 0) / shares.length / tasks).toFixed(2);
  const row = (name: string, of: (one: Shares) => number) => [
    name,
    ...measured.map(([, shares]) => mean(shares, of)),
  ];
  const rows = kinds.map(({ name }) => row(name, (one) => one.get(name) ?? 0));
  const all = row("all", (one) => [...one.values()].reduce((sum, share) => sum + share, 0));
  const headings = ["µs a task", ...measured.map(([name]) => name)];
  process.stdout.write(`${table(headings, [...rows, all]).join("\n")}\n`);
}

function whole(text: string): number {
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new InvalidArgumentError("expected a whole number");
}

const program = new Command("npx tsx bench/shares.ts")
  .description(
    "Shows where the time of a drain goes, from CPU profiles of `npm run bench -- --only drain --cpu-prof FOLDER`.",
  )
  .argument("<profiles...>", "files that end in .cpuprofile")
  .requiredOption("--tasks <number>", "the number of tasks in each drain", whole)
  .action(print);

try {
  program.parse();
} catch (error) {
  process.stderr.write(`shares: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
