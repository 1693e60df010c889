import type { Command } from "commander";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { block, json } from "../output.ts";

const examples = `
Examples:
  $ dbq metrics
  $ dbq metrics > /var/lib/node_exporter/dbq.prom     for its textfile collector`;

export function addMetrics(program: Command): void {
  program
    .command("metrics")
    .summary("print metrics for Prometheus")
    .description("Print the metrics of the queues in Prometheus' text format. Needs the package prom-client.")
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await metrics(self.optsWithGlobals<CommonOptions>()));
}

async function metrics(options: CommonOptions): Promise<void> {
  await withExistingQueue(options, async (queue) => {
    const { metricsText } = await import("../../../index.ts");
    const text = await metricsText(queue);
    if (options.json) json({ metrics: text });
    else block(text.trimEnd(), "");
  });
}
