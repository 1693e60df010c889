/** The dashboard for Grafana: each query is one that Prometheus takes, about metrics that there are. */
import { spawnSync } from "node:child_process";
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { compiler } from "../../scripts/compiler.mjs";
import { grafanaDashboard, metricsText, task } from "../../src/index.ts";
import { startedWorker, temporaryFolder, temporaryQueue, uniqueName } from "../support/queue.ts";

/** The compiler, for one file of a folder outside of the project that sees its packages. */
function compilerIn(folder: string): string[] {
  symlinkSync(fileURLToPath(new URL("../../node_modules", import.meta.url)), join(folder, "node_modules"));
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--types", "node"];
  return [compiler, ...options, "--pretty", "false", "board.ts"];
}

interface Panel {
  id: number;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets: { expr: string; legendFormat: string }[];
}

const { panels, templating } = JSON.parse(grafanaDashboard()) as {
  panels: Panel[];
  templating: { list: { name: string; query: string }[] };
};

/** The queries as Grafana sends them when all queues and functions are chosen. */
const sent = (expr: string) =>
  expr.replaceAll("$__rate_interval", "5m").replaceAll(/\$(queue|func)\b/g, ".*");

test("it is a dashboard by Grafana's own types", () => {
  const folder = temporaryFolder();
  const command = compilerIn(folder);
  // In its types the words of an enumeration are no strings.
  const board = grafanaDashboard().replaceAll('"absolute"', "ThresholdsMode.Absolute");
  const check = (text: string) => {
    writeFileSync(
      join(folder, "board.ts"),
      `import { type Dashboard, ThresholdsMode } from "@grafana/schema";\nexport const board: Dashboard = ${text};\n`,
    );
    return spawnSync(process.execPath, command, { cwd: folder, encoding: "utf8" }).stdout;
  };
  expect(check(board)).toBe("");
  expect(check(board.replace('"refresh": "30s"', '"refresh": 30'))).toContain("TS2322");
});

const isPromtoolThere = spawnSync("promtool", ["--version"]).status === 0;

test("each query and each list asks for metrics that dbq has", async () => {
  const queue = await temporaryQueue();
  const worker = await startedWorker(queue);
  const works = task(uniqueName(), () => 1);
  await queue.awaitTaskCompletion(await queue.enqueueTask(works), { timeout: 20_000 });
  await worker.stop();
  await queue.enqueueTask(works);
  const lines = (await metricsText(queue)).split("\n");
  const asked = [
    ...panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
    ...templating.list.map(({ query }) => query),
  ].flatMap((text) => text.match(/\bdbq_\w+/g) ?? []);
  expect(asked.length).toBeGreaterThan(10);
  for (const name of asked)
    expect(
      lines.filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `)),
      name,
    ).not.toEqual([]);
});

test("no panel covers another one, and each has an id of its own", () => {
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
  for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
});

test.skipIf(!isPromtoolThere)("Prometheus takes each query, and two scraped processes count once", () => {
  const folder = temporaryFolder();
  const rules = panels.flatMap(({ id, targets }) =>
    targets.map(
      ({ expr }, n) => `      - { record: "panel_${id}_${n}", expr: ${JSON.stringify(sent(expr))} }`,
    ),
  );
  const file = join(folder, "rules.yml");
  writeFileSync(file, `groups:\n  - name: dbq\n    rules:\n${rules.join("\n")}\n`);
  const checked = spawnSync("promtool", ["check", "rules", file], { encoding: "utf8" });
  expect([checked.status, checked.stdout]).toEqual([
    0,
    expect.stringContaining(`${rules.length} rules found`),
  ]);

  const idOf = (title: string) => panels.find((panel) => panel.title === title)?.id;
  // In each minute 180 attempts complete, and 60 fail; both processes tell it.
  const series = ["a", "b"].flatMap((instance) =>
    [
      ["completed", 180],
      ["failed", 60],
    ].map(
      ([outcome, rise]) =>
        `      - { series: 'dbq_task_duration_seconds_count{queue="q", func="f", outcome="${outcome}", instance="${instance}"}', values: "0+${rise}x20" }`,
    ),
  );
  const expected = (title: string, samples: Record<string, number>) => {
    const name = `panel_${idOf(title)}_0`;
    const list = Object.entries(samples).map(
      ([labels, value]) => `{ labels: '${name}{${labels}}', value: ${value} }`,
    );
    return `      - { expr: "${name}", eval_time: 15m, exp_samples: [${list.join(", ")}] }`;
  };
  writeFileSync(
    join(folder, "tests.yml"),
    `rule_files: [rules.yml]
tests:
  - interval: 1m
    input_series:
${series.join("\n")}
    promql_expr_test:
${expected("Attempts by outcome", { 'outcome="completed"': 3, 'outcome="failed"': 1 })}
${expected("Attempts that fail, by function", { 'func="f"': 0.25 })}
`,
  );
  const tested = spawnSync("promtool", ["test", "rules", join(folder, "tests.yml")], { encoding: "utf8" });
  expect([tested.status, tested.stdout + tested.stderr]).toEqual([0, expect.stringContaining("SUCCESS")]);
});
