import { type Command, Option } from "commander";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { block, json } from "../output.ts";

interface MetricsOptions extends CommonOptions {
  rules?: true;
  grafana?: true;
}

const examples = `
Examples:
  $ dbq metrics
  $ dbq metrics > /var/lib/node_exporter/dbq.prom     for its textfile collector
  $ dbq metrics --rules > /etc/prometheus/dbq-rules.yml
  $ dbq metrics --grafana > dbq-dashboard.json         for Grafana's import`;

export function addMetrics(program: Command): void {
  program
    .command("metrics")
    .summary("print metrics for Prometheus")
    .description("Print the metrics of the queues in Prometheus' text format. Needs the package prom-client.")
    .option("--rules", "print alerting rules for the causes instead; reads no database")
    .addOption(
      new Option("--grafana", "print a dashboard for Grafana instead; reads no database").conflicts("rules"),
    )
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await metrics(self.optsWithGlobals<MetricsOptions>()));
}

async function metrics(options: MetricsOptions): Promise<void> {
  const { alertRules, grafanaDashboard, metricsText } = await import("../../../index.ts");
  if (options.rules) {
    const rules = alertRules();
    if (options.json) json({ rules });
    else block(rules.trimEnd(), "");
    return;
  }
  if (options.grafana) {
    block(grafanaDashboard().trimEnd(), "");
    return;
  }
  await withExistingQueue(options, async (queue) => {
    const text = await metricsText(queue);
    if (options.json) json({ metrics: text });
    else block(text.trimEnd(), "");
  });
}
