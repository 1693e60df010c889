/** The second order: whoever survives a killed process is killed too, at each statement of what it does about it. */
import type { Cut } from "../../../fixtures/crash-server.ts";
import { Ledger } from "../../../fixtures/ledger.ts";
import { furnish } from "../furnished.ts";
import type { Files } from "../operation.ts";
import { survive } from "../surviving.ts";
import { crash } from "./crash.ts";
import type { ServerOperation } from "./operation.ts";

/** A survivor of `first`, killed at the first of its statements that begins so. */
function survivor(first: string, at: Cut, commits: number): ServerOperation {
  return {
    name: `survive a kill in "${first}", ${at.when} ${at.statement}`,
    commits,
    prepare: (files) => leaveKilled(files, first, at),
    act: survive,
  };
}

async function leaveKilled(files: Files, operation: string, at: Cut): Promise<void> {
  await furnish(files);
  await crash([{ ...files, operation, at }], "SIGKILL");
  if (new Ledger(files.ledger).entries("spared").length > 0)
    throw new Error(`${operation}: it has no statement "${at.statement}"`);
}

// Its transactions: one for each dead worker that it finds, one for the orphans, a claim, a settle. What was not committed
// is undone by the server: it does not matter how far it was.
export const surviving: readonly ServerOperation[] = [
  survivor("settle each way, and claim", { statement: "commit", when: "answered" }, 5),
  survivor("settle each way, and claim", { statement: "commit", when: "before" }, 5),
];
