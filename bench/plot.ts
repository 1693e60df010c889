/**
 * Draws the chart and writes the tables of docs/performance.md from the JSON of a run: `npx tsx bench/plot.ts
 * results.json`. For a run on servers, writes the tables of docs/benchmarks.md: `npx tsx bench/plot.ts results.json
 * --page docs/benchmarks.md --no-chart`. `--block <name>` writes the block of that name, for benchmarks that are run by themselves.
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
  block?: string;
}

const command = "npm run bench --silent -- --json";

/** The comments around the tables: a page may have several blocks, each with another name, and one without. */
const marks = (block: string | undefined) => {
  const name = block === undefined ? "" : ` ${block}`;
  return { begin: `<!-- results:begin${name} -->`, end: `<!-- results:end${name} -->` };
};

const inDocs = (name: string) => fileURLToPath(new URL(`../docs/${name}`, import.meta.url));

/** @throws Error when the page has no such block, or more than one */
function withResults(page: string, { page: path, block }: Files, markdown: string): string {
  const { begin, end } = marks(block);
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

async function plot(results: string, files: Files): Promise<void> {
  const { chart, page } = files;
  const report = reportIn(results);
  const text = withResults(readFileSync(page, "utf8"), files, resultsMarkdown(report));
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
    new Option(
      "--page <file>",
      `the page with the block between ${marks(undefined).begin} and ${marks(undefined).end}`,
    ).default(inDocs("performance.md"), "docs/performance.md"),
  )
  .option("--block <name>", "the name of the block: <!-- results:begin <name> -->")
  .action(plot);

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`plot: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
