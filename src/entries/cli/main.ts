#!/usr/bin/env node
/** `dbq`: the command line. */
import { CommanderError } from "commander";
import { exitCodeOf, reportFailure, UsageError } from "./failure.ts";
import { outputFlushed, tolerateClosedOutput } from "./output.ts";
import { buildProgram } from "./program.ts";

async function run(args: string[]): Promise<number> {
  const asJson = args.includes("--json");
  try {
    await buildProgram(asJson).parseAsync(args, { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    return ended(error, asJson);
  }
}

function ended(error: unknown, asJson: boolean): number {
  if (!(error instanceof CommanderError)) {
    reportFailure(error, asJson);
    return exitCodeOf(error);
  }
  // Help and version that were asked for; help instead of a command that was missing has another code.
  if (error.exitCode === 0) return 0;
  // Commander has printed it, unless it was to be JSON.
  if (asJson) reportFailure(new UsageError(error.message.replace(/^error: /, "")), asJson);
  return 2;
}

tolerateClosedOutput();
const code = await run(process.argv.slice(2));
// That something cannot be written comes out only then.
await outputFlushed();
// What a module of tasks has open (a pool, a server) would keep the process alive.
process.exit(code || Number(process.exitCode ?? 0));
