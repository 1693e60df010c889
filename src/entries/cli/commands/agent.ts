import { type Command, Option } from "commander";
import { contextFile, type OpenContext, withContext } from "../context.ts";
import { type CommonOptions, logError, logReports, withExistingQueue } from "../database.ts";
import { CommandError, UsageError } from "../failure.ts";
import { type Library, loadModules, moduleFiles } from "../modules.ts";
import { announce, json, line, note, table } from "../output.ts";
import { durationFrom, given, label, names, whole } from "../parse.ts";
import { loadRedact } from "../redact.ts";
import {
  contextOption,
  graceOption,
  maxTasksPerChildOption,
  queueNameOption,
  queuesOf,
} from "../run-options.ts";
import { attemptEnds } from "../shutdown.ts";
import { surviveRejections } from "../stray.ts";
import { printChange } from "../task-events.ts";
import { moment } from "../text.ts";
import { signals } from "../watch.ts";
import { fileIn } from "./manage.ts";

interface RunOptions extends CommonOptions {
  concurrency: number;
  grace: number;
  maxTasksPerChild?: number;
  context?: string;
  ca?: string;
  quiet?: true;
}

interface AddOptions extends CommonOptions {
  funcs?: readonly string[];
  queue?: readonly string[];
  queueName?: readonly string[];
  expires?: number;
}

const examples = `
Examples:
  $ dbq agent add gpu-7 --funcs pdf,ocr --expires 90d     # prints a token, once
  $ export DBQ_TOKEN=…
  $ dbq agent https://mgr-a:7420,https://mgr-b:7420 tasks.js --concurrency 4
  $ dbq agent revoke gpu-7

"add" and "revoke" work on the database. An agent itself needs none: it runs the
tasks of the modules, and asks the Managers, one URL or several, for work. It
reads its token from DBQ_TOKEN.

SIGTERM and SIGINT stop an agent: it claims no more, and hands back the tasks
that do not finish within --grace. A second signal hands them back at once.`;

export function addAgentCommands(program: Command): void {
  const agent = program
    .command("agent")
    .summary("run tasks on a machine without the database")
    .description("Run tasks that Managers claim, until a signal stops the agent.")
    .argument("<urls>", "the URLs of the Managers, separated by commas")
    .argument("<modules...>", "modules that call task() or registerTasks(), relative to the current folder")
    .option("--concurrency <number>", "how many tasks run at once", whole(1, 1_000), 10)
    .addOption(graceOption())
    .addOption(maxTasksPerChildOption())
    .addOption(contextOption())
    .option("--ca <file>", "certificates, PEM, that the Managers' own are checked against")
    .option("--quiet", "print no line for each event of a task")
    .addHelpText("after", examples)
    .action(async (managers: string, modules: string[], _: unknown, self: Command) => {
      await run(managers, modules, self.optsWithGlobals<RunOptions>());
    });
  addAdd(agent);
  agent.command("list", { hidden: true }).action(() => {
    throw new UsageError("dbq agents lists the agents");
  });
  agent
    .command("revoke")
    .summary("revoke an agent's token")
    .description("Revoke an agent's token: Managers refuse it within a second.")
    .argument("<name>", "the agent")
    .configureHelp({ showGlobalOptions: true, visibleGlobalOptions })
    .addHelpText(
      "after",
      "\nExamples:\n  $ dbq agent revoke gpu-7\n\nThe name is free then: dbq agent add gives it a new token.",
    )
    .action(async (name: string, _: unknown, self: Command) => {
      await revoke(name, self.optsWithGlobals<CommonOptions>());
    });
}

/** Without the options of `dbq agent`, which are those of a running agent. */
const visibleGlobalOptions = ({ parent }: Command): Option[] => [...(parent?.parent?.options ?? [])];

const addExamples = `
Examples:
  $ dbq agent add gpu-7 --funcs pdf,ocr --expires 90d
  $ dbq agent add gpu-7 --funcs pdf,ocr --queue media,mail
  $ export DBQ_TOKEN=$(dbq agent add gpu-7 --funcs pdf,ocr)

--funcs names each function: there is no wildcard.`;

function addAdd(agent: Command): void {
  agent
    .command("add")
    .summary("add an agent, and print its token")
    .description("Add an agent, and print its token. The database keeps only a hash of it.")
    .argument("<name>", "the agent: letters, digits and . _ -", label)
    .option("--funcs <names>", "the functions that it may run, separated by commas; may be repeated", names)
    .option("--queue <names>", 'the queues whose tasks it may run (default: "default")', names)
    .addOption(queueNameOption())
    .addOption(
      new Option(
        "--expires <duration>",
        "how long its token is valid (default: until it is revoked)",
      ).argParser(durationFrom("1s", "10y")),
    )
    .configureHelp({ showGlobalOptions: true, visibleGlobalOptions })
    .addHelpText("after", addExamples)
    .action(async (name: string, _: unknown, self: Command) => {
      await add(name, self.optsWithGlobals<AddOptions>());
    });
}

export function addAgents(program: Command): void {
  program
    .command("agents")
    .summary("list the agents")
    .description("List the agents: what each may run, when it was last seen, and whether its token is valid.")
    .addHelpText("after", "\nExamples:\n  $ dbq agents\n  $ dbq agents --json")
    .action(async (_: unknown, self: Command) => await list(self.optsWithGlobals<CommonOptions>()));
}

const managing = async () => await (await import("../../../index.ts")).loadManager();

// ---- dbq agent add, revoke; dbq agents -----------------------------------------------------------

async function add(
  name: string,
  { funcs, queue: list, queueName, expires, ...options }: AddOptions,
): Promise<void> {
  if (funcs === undefined)
    throw new UsageError("dbq agent add: name the functions that it may run: --funcs pdf,ocr");
  if (funcs.includes("*")) throw new UsageError('--funcs: name each function: "*" is no wildcard');
  const { addAgent } = await managing();
  const queues = queuesOf(given({ queue: list, queueName }));
  await withExistingQueue(options, async (queue) => {
    const added = await addAgent(queue, name, { funcs, ...queues, ...given({ expires }) }).catch(refused);
    if (options.json) json(added);
    else {
      line(added.token);
      // On stderr, so that a script can take the token from stdout.
      note("This token is shown once. The agent reads it from DBQ_TOKEN.");
    }
  });
}

/** A wrong name, or one that is taken, is the user's to correct. */
function refused(error: unknown): never {
  if (!(error instanceof TypeError)) throw error;
  throw new UsageError(error.message.replace(/^(add|revoke)Agent: /, ""));
}

async function revoke(name: string, options: CommonOptions): Promise<void> {
  const { revokeAgent } = await managing();
  await withExistingQueue(options, async (queue) => {
    if (!(await revokeAgent(queue, name).catch(refused)))
      throw new CommandError("NO_AGENT", `there is no agent "${name}": dbq agents lists them`);
    if (options.json) json({ name, revoked: true });
    else line(`revoked ${name}`);
  });
}

async function list(options: CommonOptions): Promise<void> {
  const { listAgents } = await managing();
  await withExistingQueue(options, async (queue) => {
    const agents = await listAgents(queue);
    if (options.json) json(agents);
    else if (agents.length === 0) line("no agents");
    else
      table(
        ["NAME", "TOKEN", "FUNCS", "QUEUES", "LAST SEEN", "EXPIRES"],
        agents.map(({ name, valid, revokedAt, funcs, queues, lastSeenAt, expiresAt }) => [
          name,
          valid
            ? { text: "valid", color: "green" }
            : { text: revokedAt ? "revoked" : "expired", color: "red" },
          funcs.join(","),
          queues.join(","),
          lastSeenAt ? moment(lastSeenAt) : "never",
          expiresAt ? moment(expiresAt) : "",
        ]),
      );
  });
}

// ---- dbq agent -----------------------------------------------------------------------------------

async function run(managers: string, modules: readonly string[], options: RunOptions): Promise<void> {
  const token = process.env.DBQ_TOKEN;
  if (token === undefined || token === "")
    throw new UsageError("DBQ_TOKEN is not set: dbq agent add NAME --funcs … prints a token");
  const files = moduleFiles(modules);
  const context = contextFile(options.context);
  logReports(options.json);
  await surviveRejections(options.json);
  const library = await loadModules(files, options);
  await withContext(context, options, (made) => work(library, names(managers), token, options, made));
}

async function work(
  library: Library,
  managers: readonly string[],
  token: string,
  options: RunOptions,
  context: OpenContext | undefined,
): Promise<void> {
  const { concurrency, grace, maxTasksPerChild, ca, json: asJson } = options;
  const { Agent } = await library.loadAgent();
  const pem = ca === undefined ? undefined : fileIn("--ca", ca);
  const more = given({ maxTasksPerChild, ca: pem, context: context?.value });
  const agent = new Agent({ managers: [...managers], token, concurrency, ...more });
  agent.on("error", (error, where) => logError(error, where, asJson));
  const show = (await import("../../../index.ts")).showing(await loadRedact(options));
  if (!options.quiet)
    for (const event of ["started", ...attemptEnds] as const)
      agent.on(event, (task) => printChange({ time: new Date(), event, task: show(task) }, asJson));
  let stopping: Promise<void> | undefined;
  const stopped = new Promise<void>((resolve, reject) => {
    for (const signal of signals)
      process.on(signal, () => {
        stopping = agent.stop({ grace: stopping === undefined ? grace : 0 });
        stopping.then(resolve, reject);
      });
  });
  const isStarted = await Promise.race([agent.start().then(() => true), stopped.then(() => false)]);
  if (isStarted)
    announce(
      "ready",
      { manager: agent.manager, session: agent.session, tasks: library.registeredNames() },
      options,
    );
  await stopped;
  announce("stopped", {}, options);
}
