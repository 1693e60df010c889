/** Runs one command in this process, and reports its failure. */
import { CommanderError } from "commander";
import { exitCodeOf, reportFailure, UsageError } from "./failure.ts";
import { buildProgram } from "./program.ts";

/** @param args what stands after `dbq`. @returns the exit code */
export async function run(args: string[]): Promise<number> {
  const asJson = args.includes("--json");
  try {
    await buildProgram(asJson).parseAsync(args, { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    return failed(error, asJson);
  }
}

function failed(error: unknown, asJson: boolean): number {
  if (!(error instanceof CommanderError)) {
    reportFailure(error, asJson);
    return exitCodeOf(error);
  }
  // Commander ends --help and --version by an error with exit code 0; help for a missing command has another code.
  if (error.exitCode === 0) return 0;
  // Commander has printed the error, but not as JSON.
  if (asJson) reportFailure(new UsageError(error.message.replace(/^error: /, "")), asJson);
  return 2;
}
