import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type Command, InvalidArgumentError } from "commander";
import { type CommonOptions, logError, shown, withExistingQueue } from "../database.ts";
import { CommandError } from "../failure.ts";
import { announce } from "../output.ts";
import { whole } from "../parse.ts";
import { signals } from "../watch.ts";

interface DashboardCommandOptions extends CommonOptions {
  port: number;
  origin?: PublicAddress;
  readOnly?: boolean;
}

/** Where browsers find it. */
interface PublicAddress {
  origin: string;
  basePath: string;
}

const examples = `
Examples:
  $ dbq dashboard --db app.db       # prints an address: open it in a browser
  $ dbq dashboard --db postgres://app@db/app --port 8080 --read-only
  $ dbq dashboard --origin https://ops.example/dbq   # behind a proxy

It listens on 127.0.0.1 only, and the address has a token, without which nothing
is shown. To reach it on a server: ssh -L 8080:127.0.0.1:8080 server. To give it
to a team, mount it in your app behind its own sign-in: see docs/dashboard.md.`;

export function addDashboard(program: Command): void {
  program
    .command("dashboard")
    .summary("see and steer the tasks in a browser, on this machine")
    .description("Serve the dashboard on this machine, until a signal stops it.")
    .option("--port <number>", "where it listens; 0: any free port", whole(0, 65_535), 0)
    .option("--origin <url>", "its address in the browser, where that is a proxy's", publicAddress)
    .option("--read-only", "show everything, and change nothing")
    .addHelpText("after", examples)
    .action(
      async (_: unknown, self: Command) => await serve(self.optsWithGlobals<DashboardCommandOptions>()),
    );
}

/** @throws InvalidArgumentError */
function publicAddress(text: string): PublicAddress {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const basePath = url?.pathname.replace(/\/$/, "") ?? "";
  if (url && /^https?:$/.test(url.protocol) && url.href.replace(/\/$/, "") === `${url.origin}${basePath}`)
    return { origin: url.origin, basePath };
  throw new InvalidArgumentError(
    "Expected an address such as http://intranet.local or https://ops.example/dbq.",
  );
}

async function serve(options: DashboardCommandOptions): Promise<void> {
  const { port, readOnly = false, json: asJson, origin: from } = options;
  const { localDashboard, toNodeHandler } = await (await import("../../../index.ts")).loadDashboard();
  await withExistingQueue(options, async (queue) => {
    const onError = (error: unknown, where: string) => logError(error, where, asJson);
    const { handle, token } = localDashboard(queue, {
      ...{ onError, readOnly },
      ...(from && { origin: from.origin, basePath: `${from.basePath}/` }),
    });
    const server = createServer(toNodeHandler(handle));
    const address = await listening(server, port);
    const stopped = new Promise<void>((resolve) => {
      for (const signal of signals) process.on(signal, () => resolve());
    });
    const at = from ? `${from.origin}${from.basePath}` : `http://127.0.0.1:${address.port}`;
    const url = `${at}/?token=${token}`;
    announce("ready", { database: await shown(options.db), url }, options);
    await stopped;
    await handle.close();
    server.closeAllConnections();
    server.close();
    announce("stopped", {}, options);
  });
}

/** @throws CommandError when the port is taken */
async function listening(server: Server, port: number): Promise<AddressInfo> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(new CommandError("LISTEN", `--port ${port}: ${error.message}`)));
    server.listen(port, "127.0.0.1", resolve);
  });
  return server.address() as AddressInfo;
}
