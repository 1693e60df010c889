import { subscribe } from "node:diagnostics_channel";
import { readFileSync } from "node:fs";
import { type Command, Option } from "commander";
import { type CommonOptions, logError, shown, stopWithFile, withExistingQueue } from "../database.ts";
import { CommandError, UsageError } from "../failure.ts";
import { announce } from "../output.ts";
import { durationFrom, given, whole } from "../parse.ts";
import { showingOf } from "../redact.ts";
import { printChange } from "../task-events.ts";
import { signals } from "../watch.ts";

interface ManagerCommandOptions extends CommonOptions {
  listen: string;
  tlsCert?: string;
  tlsKey?: string;
  lease: number;
  maxBody?: number;
  maxConnections?: number;
  maxSessions?: number;
  maxSlots?: number;
  maxAnswer?: number;
  quiet?: true;
}

const examples = `
Examples:
  $ dbq manager                                    # for agents on this machine
  $ dbq manager --db postgres://app@db.internal/app \\
      --listen 0.0.0.0:7420 --tls-cert manager.crt --tls-key manager.key

Start two or more, on two machines, and name all of them to each agent. Without
--tls-cert it listens only on this machine, or on a unix socket (unix:/path).

It prints which agents come and go, and whose token it refuses: the same refusal
at most once a minute.

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
    .option("--max-sessions <number>", "processes with one agent's token (default: 100)", whole(1, 100_000))
    .option("--max-slots <number>", "tasks that one claim may ask for (default: 1000)", whole(1, 100_000))
    .option("--max-answer <bytes>", "the tasks in one answer, in bytes (default: 8388608)", whole(1_024))
    .option("--quiet", "print no line for each event")
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await manage(self.optsWithGlobals<ManagerCommandOptions>()));
}

async function manage(options: ManagerCommandOptions): Promise<void> {
  const { listen, lease, maxBody, maxConnections, maxSessions, maxSlots, maxAnswer, json: asJson } = options;
  const tls = tlsOf(options);
  const library = await import("../../../index.ts");
  const { Manager } = await library.loadManager();
  await withExistingQueue(options, async (queue) => {
    const manager = new Manager(queue, {
      listen,
      lease,
      ...given({ tls, maxBody, maxConnections, maxSessions, maxSlots, maxAnswer }),
    });
    manager.on("error", (error, where) => logError(error, where, asJson));
    printSessions(options);
    const show = await showingOf(queue);
    if (!options.quiet)
      for (const event of ["failed", "retrying"] as const)
        manager.on(event, (task) => printChange({ time: new Date(), event, task: show(task) }, asJson));
    manager.on("rescued", ({ workerId, tasks }) => announce("rescued", { tasks, of: workerId }, options));
    const stopped = new Promise<void>((resolve, reject) => {
      for (const signal of signals) process.on(signal, () => manager.stop().then(resolve, reject));
      // It can do nothing more: its agents go on to another Manager.
      stopWithFile(manager, library, reject);
    });
    await manager.start();
    announce("ready", { database: await shown(options.db), url: manager.url }, options);
    await stopped;
    announce("stopped", {}, options);
  });
}

interface Reported {
  agent?: string;
  session: string;
  reason: string;
  address?: string;
  tasks: readonly { id: number; generation: number }[];
}

/** Prints which agents come, go, are refused and have lost tasks. */
function printSessions(options: ManagerCommandOptions): void {
  const print = (channel: string, event: string, facts: (message: Reported) => object | undefined) =>
    subscribe(`dbq:${channel}`, (message) => {
      const shown = facts(message as Reported);
      if (shown) announce(event, shown, options);
    });
  print("session-opened", "opened", ({ agent, session }) => ({ agent, session }));
  print("session-closed", "closed", ({ agent, session, reason }) => ({ agent, session, reason }));
  print("agent-revoked", "revoked", ({ agent }) => ({ agent }));
  const isNew = oncePerMinute();
  print("task-lost", "lost", ({ agent, session, tasks }) => {
    // A beat and a settle may both say so of one task.
    const lost = tasks.filter(({ id, generation }) => isNew(`${session} ${id}:${generation}`));
    return lost.length === 0 ? undefined : { agent, session, tasks: lost.length };
  });
  print("token-refused", "refused", ({ agent, reason, address }) => {
    const facts = given({ agent, token: reason, address });
    return isNew(Object.values(facts).join()) ? facts : undefined;
  });
}

/** Whether a text has not come in the last minute: a client that goes on asking does not fill the log. */
function oncePerMinute(): (text: string) => boolean {
  const printedAt = new Map<string, number>();
  return (text) => {
    const now = performance.now();
    if (now - (printedAt.get(text) ?? Number.NEGATIVE_INFINITY) < 60_000) return false;
    if (printedAt.size >= 1_000) printedAt.clear();
    printedAt.set(text, now);
    return true;
  };
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
