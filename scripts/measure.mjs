/** Prints the lengths of the sources' functions and files: `npm run measure`, or `-- --json` for one object. */
import { fileURLToPath, pathToFileURL } from "node:url";
import { readSources } from "./sources.mjs";

/** @typedef {{ count: number, median: number, p90: number, max: number, longest: { name: string, lines: number }[] }} Measure */

/**
 * @param {string} root
 * @returns {{ files: Measure, functions: Measure }}
 */
export function measure(root) {
  const sources = readSources(root, ["src", "drizzle"]);
  return {
    files: summary(sources.map(({ path, lines }) => ({ name: path, lines }))),
    functions: summary(
      sources.flatMap(({ path, functions }) =>
        functions.map(({ name, line, lines }) => ({ name: `${path}:${line} ${name}`, lines })),
      ),
    ),
  };
}

/**
 * @param {{ name: string, lines: number }[]} items
 * @returns {Measure}
 */
function summary(items) {
  const sorted = items.toSorted((a, b) => b.lines - a.lines);
  /** @param {number} share the nearest rank: a length that at least this share of the items does not exceed */
  const rank = (share) => sorted.at(-Math.ceil(sorted.length * share))?.lines ?? 0;
  return {
    count: sorted.length,
    median: rank(0.5),
    p90: rank(0.9),
    max: rank(1),
    longest: sorted.slice(0, 5),
  };
}

/**
 * @param {{ files: Measure, functions: Measure }} measured
 * @returns {string}
 */
export function format({ files, functions }) {
  /** @type {(what: string, measure: Measure) => string[]} */
  const rows = (what, { count, median, p90, max, longest }) => [
    `${what}: ${count}; lines: median ${median}, p90 ${p90}, max ${max}`,
    ...longest.map(({ name, lines }) => `  ${String(lines).padStart(4)}  ${name}`),
  ];
  return [...rows("files", files), ...rows("functions", functions)].join("\n");
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const measured = measure(fileURLToPath(new URL("..", import.meta.url)));
  console.log(process.argv.includes("--json") ? JSON.stringify(measured) : format(measured));
}
