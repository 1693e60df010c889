import { setTimeout as sleep } from "node:timers/promises";
import { type Command, Option } from "commander";
import type { Queue } from "../../../index.ts";
import { type CommonOptions, logError, shown, stopWithFile, withExistingQueue } from "../database.ts";
import { UsageError } from "../failure.ts";
import { announce } from "../output.ts";
import { duration, given, label, oneName, whole } from "../parse.ts";
import { graceOption } from "../run-options.ts";
import { span } from "../text.ts";
import { signals } from "../watch.ts";

interface DrainCommandOptions extends CommonOptions {
  queue?: string;
  queueName?: string;
  to: string;
  batch?: number;
  keep?: number;
  ordered?: "group";
  onRefused?: "fail" | "retry";
  results?: true;
  resultsWithin?: number;
  lease?: number;
  grace: number;
  quiet?: true;
}

const examples = `
Examples:
  $ dbq drain --queue mail --to bullmq:redis://127.0.0.1:6379/mail
  $ dbq drain --queue mail --to stream:rediss://user:secret@redis.internal/mail
  $ dbq drain --queue mail --to "bullmq:redis://127.0.0.1/mail?prefix=app&db=2"

Start as many as you like: one carries the queue, the others stand by. SIGTERM
and SIGINT stop the drain: it waits for answers to what it has sent for --grace,
and hands the rest back. A second signal hands back at once.

Install ioredis, and for bullmq: bullmq too.`;

/** Milliseconds between two lines that tell how many messages were sent. */
const countEvery = 1_000;

/** Milliseconds between two looks whether the target can be used. */
const lookEvery = 200;

export function addDrain(program: Command): void {
  const time = (flags: string, description: string) => new Option(flags, description).argParser(duration);
  program
    .command("drain")
    .summary("carry a queue's tasks into BullMQ or a Redis stream")
    .description(
      "Carry the tasks of a queue into BullMQ or a stream of Redis until a signal stops it. A task is completed when its message has arrived.",
    )
    .option("--queue <name>", "the queue whose tasks are sent, of all functions", oneName)
    .option("--queue-name <name>", "the same, of a queue whose name has a comma", label)
    .requiredOption(
      "--to <target>",
      "bullmq:redis://host:port/queue or stream:redis://host:port/key; ?db=<number>, ?prefix=<text>",
    )
    .option("--batch <number>", "the most tasks that are sent together (default: 500)", whole(1, 10_000))
    .addOption(time("--keep <duration>", "how long sent tasks are kept; 0 deletes them at once"))
    .addOption(
      new Option(
        "--ordered <how>",
        "group: one task of each group at a time, which stops at a refused one",
      ).choices(["group"]),
    )
    .addOption(
      new Option("--on-refused <what>", "what happens to a task that the target refuses").choices([
        "fail",
        "retry",
      ]),
    )
    .option("--results", "sent tasks run until queue.settleDrained brings their results")
    .addOption(time("--results-within <duration>", "then a task without a result fails (default: 1d)"))
    .addOption(
      time(
        "--lease <duration>",
        "after this time without a heartbeat, another drain takes over (default: 15s)",
      ),
    )
    .addOption(graceOption("time for answers to come after a signal"))
    .option("--quiet", "print no line for each event")
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await carry(self.optsWithGlobals<DrainCommandOptions>()));
}

async function carry(options: DrainCommandOptions): Promise<void> {
  drainedBy(options);
  const library = await import("../../../index.ts");
  const drains = await library.loadDrains();
  const to = await drains.openDrainTarget(options.to, (error, where) => logError(error, where, options.json));
  try {
    await withExistingQueue(options, (queue) => run(queue, to, { ...library, ...drains }, options));
  } finally {
    await to.close();
  }
}

/** @throws UsageError */
function drainedBy({ queue, queueName }: DrainCommandOptions): string {
  const name = queue ?? queueName;
  if (name === undefined || (queue !== undefined && queueName !== undefined))
    throw new UsageError("expected either --queue, or --queue-name");
  return name;
}

type Dbq = typeof import("../../../index.ts");
type Drains = Awaited<ReturnType<Dbq["loadDrains"]>>;
type Target = Awaited<ReturnType<Drains["openDrainTarget"]>>;
type Carrier = ReturnType<Drains["drain"]>;

async function run(
  queue: Queue,
  to: Target,
  library: Dbq & Drains,
  options: DrainCommandOptions,
): Promise<void> {
  const queueName = drainedBy(options);
  const { batch, keep, ordered, onRefused, results, resultsWithin, lease } = options;
  const carrier = library.drain(queue, {
    queueName,
    to,
    ...given({ batch, keep, ordered, onRefused, results, resultsWithin, lease }),
  });
  const printCounts = printEvents(carrier, options);
  let stopping: Promise<void> | undefined;
  const stopped = new Promise<void>((resolve, reject) => {
    for (const signal of signals)
      process.on(signal, () => {
        stopping = carrier.stop({ grace: stopping === undefined ? options.grace : 0 });
        stopping.then(resolve, reject);
      });
    // It can do nothing more: another drain on that file goes on.
    stopWithFile(carrier, library, reject);
  });
  await carrier.start();
  const over = new AbortController();
  const ended = stopped.finally(() => over.abort());
  await Promise.all([printReady(carrier, to, options, over.signal), ended]);
  printCounts();
  announce("stopped", { queue: queueName }, options);
}

/** Prints `ready`, and whether this drain carries the queue, once the target can be used. Until then it says that it waits. */
async function printReady(
  carrier: Carrier,
  to: Target,
  options: DrainCommandOptions,
  signal: AbortSignal,
): Promise<void> {
  const { queue } = options;
  for (let looks = 0; !(await to.isUsable()); looks += 1) {
    if (looks === 0) announce("waiting", { queue, target: to.name }, options);
    await sleep(lookEvery, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
  }
  const printTurn = (active: boolean) => announce(active ? "active" : "standby", { queue }, options);
  if (carrier.active) printTurn(true);
  announce("ready", { database: await shown(options.db), queue, target: to.name }, options);
  if (!carrier.active) printTurn(false);
  carrier.on("active", () => printTurn(true));
  carrier.on("standby", () => printTurn(false));
}

/** @returns a function that prints how many messages were sent since the last line, and ends the lines */
function printEvents(carrier: Carrier, options: DrainCommandOptions): () => void {
  const { queue, json: asJson } = options;
  let messages = 0;
  const count = () => {
    if (messages > 0) announce("sent", { messages, queue }, options);
    messages = 0;
  };
  const timer = setInterval(count, countEvery);
  carrier.on("sent", (ids) => {
    messages += ids.length;
  });
  carrier.on("refused", ({ id, func }, error) => logError(error, `refused: task ${id} (${func})`, asJson));
  carrier.on("paused", (_, delay) =>
    announce("paused", { queue, delay: asJson ? delay : span(delay) }, options),
  );
  carrier.on("resumed", () => announce("resumed", { queue }, options));
  carrier.on("error", (error, where) => logError(error, where, asJson));
  return () => {
    clearInterval(timer);
    count();
  };
}
