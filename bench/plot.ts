/**
 * Draws the chart and writes the tables of docs/performance.md from the JSON of a run: `npx tsx bench/plot.ts
 * results.json`. For a run on servers, writes the tables of docs/benchmarks.md: `npx tsx bench/plot.ts results.json
 * --page docs/benchmarks.md --no-chart`.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Command, Option } from "commander";
import { chartOf } from "./chart.ts";
import type { Report } from "./report.ts";
import { resultsMarkdown } from "./results-table.ts";

interface Files {
  chart: string | false;
  page: string;
}

const command = "npm run bench --silent -- --json";
const begin = "<!-- results:begin -->";
const end = "<!-- results:end -->";

const inDocs = (name: string) => fileURLToPath(new URL(`../docs/${name}`, import.meta.url));

/** @throws Error when the page has no such block, or more than one */
function withResults(page: string, path: string, markdown: string): string {
  const [before, ...afterBegin] = page.split(begin);
  const [, after, ...more] = afterBegin.join(begin).split(end);
  if (before === undefined || afterBegin.length !== 1 || after === undefined || more.length > 0)
    throw new Error(`${path} needs one block between ${begin} and ${end}`);
  return `${before}${begin}\n\n${markdown}\n\n${end}${after}`;
}

function reportIn(path: string): Report {
  const text = readFileSync(path, "utf8");
  try {
    const report: Partial<Report> = JSON.parse(text);
    if (Array.isArray(report.results) && report.results.length > 0) return report as Report;
  } catch {
    // Not JSON: reported below.
  }
  throw new Error(`${path} has no results: they are printed by ${command}`);
}

async function plot(results: string, { chart, page }: Files): Promise<void> {
  const report = reportIn(results);
  const text = withResults(readFileSync(page, "utf8"), page, resultsMarkdown(report));
  if (chart !== false) writeFileSync(chart, await chartOf(report));
  writeFileSync(page, text);
}

const program = new Command("npx tsx bench/plot.ts")
  .description("Draws the chart and writes the tables of a run of the benchmarks.")
  .argument("<results>", `the output of ${command}`)
  .addOption(
    new Option("--chart <file>", "the SVG to write").default(
      inDocs("performance.svg"),
      "docs/performance.svg",
    ),
  )
  .option("--no-chart", "write only the tables")
  .addOption(
    new Option("--page <file>", `the page with the block between ${begin} and ${end}`).default(
      inDocs("performance.md"),
      "docs/performance.md",
    ),
  )
  .action(plot);

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`plot: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
