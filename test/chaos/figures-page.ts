/** Writes the figures of a run into docs/guarantees.md. */
import { readFileSync, writeFileSync } from "node:fs";
import { backendFor, type Figure, format, type RunResult, type Scenario } from "./scenario.ts";

const begin = "<!-- npm run chaos -- --docs writes from here -->";
const end = "<!-- to here -->";
const head = ["| scenario | what it proves | last figures | measured |", "| --- | --- | --- | --- |"];

/** One row for each scenario, database and amount, so that a long run stands beside the usual one. */
function keyOf(scenario: Scenario, amount: number, server: string | undefined): string {
  const { kind, name } = backendFor(scenario, server);
  const on = kind === "sqlite" ? "" : ` on ${name}`;
  return `${scenario.name}${on}, ${amount.toLocaleString("en")} ${scenario.unit}`;
}

/** Writes a run's figures into the page, in place of those of an earlier run with the same key. */
export function writeFigures(
  path: string,
  scenario: Scenario,
  result: RunResult,
  seconds: number,
  server?: string,
): void {
  const { about, unit } = scenario;
  const page = readFileSync(path, "utf8");
  const [before, after] = [page.indexOf(begin), page.indexOf(end)];
  if (before < 0 || after < before) throw new Error(`${path} lacks the lines "${begin}" and "${end}"`);
  // The amount that was done, where there was less to do than asked for.
  const amount = result.figures.find((figure) => figure.name === unit)?.value ?? result.amount;
  const key = keyOf(scenario, amount, server);
  const date = new Date().toISOString().slice(0, 10);
  const row = `| ${key} | ${about} | ${figuresOf(result.figures)} | ${date}, ${Math.round(seconds)} s, seed ${result.seed} |`;
  const rows = page
    .slice(before + begin.length, after)
    .split("\n")
    .filter((line) => line.startsWith("| ") && !head.includes(line) && !line.startsWith(`| ${key} |`));
  const table = [...head, ...[...rows, row].sort()].join("\n");
  writeFileSync(path, `${page.slice(0, before)}${begin}\n${table}\n${page.slice(after)}`);
}

const figuresOf = (figures: readonly Figure[]) =>
  figures
    .map((figure) => format(figure) + (figure.most === undefined ? "" : ` (at most ${figure.most})`))
    .join("; ");
