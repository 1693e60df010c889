import { readFileSync } from "node:fs";
import { type Command, Option } from "commander";
import { type CommonOptions, logError, shown, withExistingQueue } from "../database.ts";
import { CommandError, UsageError } from "../failure.ts";
import { json, line } from "../output.ts";
import { durationFrom, given, whole } from "../parse.ts";
import { moment } from "../text.ts";
import { signals } from "../watch.ts";

interface ManagerCommandOptions extends CommonOptions {
  listen: string;
  tlsCert?: string;
  tlsKey?: string;
  lease: number;
  maxBody?: number;
  maxConnections?: number;
  maxSlots?: number;
  maxAnswer?: number;
}

const examples = `
Examples:
  $ dbq manager                                    # for agents on this machine
  $ dbq manager --db postgres://app@db.internal/app \\
      --listen 0.0.0.0:7420 --tls-cert manager.crt --tls-key manager.key

Start two or more, on two machines, and name all of them to each agent. Without
--tls-cert it listens only on this machine, or on a unix socket (unix:/path).

SIGTERM and SIGINT stop it. What agents run goes on: they settle it with another
Manager, or with this one when it is back within the lease. Exit code 0.`;

export function addManager(program: Command): void {
  program
    .command("manager")
    .summary("claim and settle for agents on other machines")
    .description("Let agents, machines without access to the database, run tasks, until a signal stops it.")
    .option("--listen <address>", 'host:port, or "unix:" and a path', "127.0.0.1:7420")
    .option("--tls-cert <file>", "the certificate, PEM; with the chain")
    .option("--tls-key <file>", "the certificate's private key, PEM")
    .addOption(
      new Option("--lease <duration>", "after this time without a sign of an agent, its tasks run elsewhere")
        .argParser(durationFrom("1s", "1d"))
        .default(15_000, "15s"),
    )
    .option("--max-body <bytes>", "the largest body of a request (default: 4194304)", whole(1_024))
    .option("--max-connections <number>", "connections at once (default: 1000)", whole(1, 1_000_000))
    .option("--max-slots <number>", "tasks that one claim may ask for (default: 1000)", whole(1, 100_000))
    .option("--max-answer <bytes>", "the tasks in one answer, in bytes (default: 8388608)", whole(1_024))
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await manage(self.optsWithGlobals<ManagerCommandOptions>()));
}

async function manage(options: ManagerCommandOptions): Promise<void> {
  const { listen, lease, maxBody, maxConnections, maxSlots, maxAnswer, json: asJson } = options;
  const tls = tlsOf(options);
  const { DatabaseMovedError, loadManager } = await import("../../../index.ts");
  const { Manager } = await loadManager();
  await withExistingQueue(options, async (queue) => {
    const manager = new Manager(queue, {
      listen,
      lease,
      ...given({ tls, maxBody, maxConnections, maxSlots, maxAnswer }),
    });
    manager.on("error", (error, where) => logError(error, where, asJson));
    manager.on("rescued", ({ workerId, tasks }) => announce("rescued", { tasks, of: workerId }, options));
    const stopped = new Promise<void>((resolve, reject) => {
      for (const signal of signals) process.on(signal, () => manager.stop().then(resolve, reject));
      // It can do nothing more: its agents go on to another Manager.
      manager.on("error", (error) => {
        const leave = () => reject(error);
        if (error instanceof DatabaseMovedError) void manager.stop().then(leave, leave);
      });
    });
    await manager.start();
    announce("ready", { database: await shown(options.db), url: manager.url }, options);
    await stopped;
    announce("stopped", {}, options);
  });
}

function tlsOf({ tlsCert, tlsKey }: ManagerCommandOptions): { cert: Buffer; key: Buffer } | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined)
    throw new UsageError(
      `--tls-cert and --tls-key belong together: ${tlsCert ? "--tls-key" : "--tls-cert"} is missing`,
    );
  return { cert: fileIn("--tls-cert", tlsCert), key: fileIn("--tls-key", tlsKey) };
}

/** @throws CommandError that names the option and the file */
export function fileIn(option: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new CommandError("FILE", `${option} ${path}: ${(error as Error).message}`);
  }
}

export function announce(event: string, about: object, { json: asJson }: Pick<CommonOptions, "json">): void {
  const time = new Date();
  if (asJson) {
    json({ time, event, ...about });
    return;
  }
  const facts = Object.entries(about).map(([name, value]) => `${name} ${String(value)}`);
  line({ text: moment(time), color: "dim" }, `${event.padEnd(11)} ${facts.join(", ")}`);
}
