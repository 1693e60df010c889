/** The alerting rules, as Prometheus' own program reads them. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { alertRules, metricsText, remoteTask } from "../../src/index.ts";
import { temporaryFolder, temporaryQueue } from "../support/queue.ts";

const nobody = remoteTask<() => Promise<void>>("nobody");

test("promtool accepts the rules, one for each kind of cause, and they fire for a cause and not without one", async (context) => {
  if (spawnSync("promtool", ["--version"]).status !== 0)
    context.skip("the program `promtool`, of Prometheus, is not installed");
  const folder = temporaryFolder();
  const rules = join(folder, "rules.yml");
  writeFileSync(rules, alertRules());
  const checked = spawnSync("promtool", ["check", "rules", rules], { encoding: "utf8" });
  expect([checked.status, checked.stdout]).toEqual([0, expect.stringContaining("11 rules found")]);

  const queue = await temporaryQueue();
  await queue.setCauseThresholds({ pilingTasks: 1 });
  await queue.schedule("hourly", { every: "1h" }, nobody);
  await queue.triggerSchedule("hourly");
  const samples = (await metricsText(queue)).split("\n").filter((line) => line.startsWith("dbq_causes"));
  expect(samples).toContain('dbq_causes{kind="piling",severity="warning"} 1');
  const firing = (alertname: string, severity: string, summary: string) => `
      - alertname: ${alertname}
        eval_time: 5m
        exp_alerts:
          - exp_labels: { severity: ${severity} }
            exp_annotations:
              summary: "${summary}"
              description: "dbq causes says which, and what repairs it."`;
  const tests = join(folder, "tests.yml");
  const series = samples.map((line) => {
    const [name, value] = line.split(" ");
    return `      - series: '${name}'\n        values: '${value}x10'`;
  });
  writeFileSync(
    tests,
    `rule_files: [rules.yml]
tests:
  - interval: 1m
    input_series:
${series.join("\n")}
    alert_rule_test:${firing("DbqPiling", "warning", "dbq: a schedule has unfinished tasks that pile up")}
      - alertname: DbqUnserved
        eval_time: 5m
        exp_alerts: []
`,
  );
  const tested = spawnSync("promtool", ["test", "rules", tests], { encoding: "utf8" });
  expect([tested.status, tested.stdout + tested.stderr]).toEqual([0, expect.stringContaining("SUCCESS")]);
});
