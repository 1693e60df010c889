/** Kills of the second order: the process that recovers from a kill is killed as well, at each of its statements. */
import type { Cut } from "../../../fixtures/crash-server.ts";
import { EventLog } from "../../../fixtures/event-log.ts";
import type { Files } from "../operation.ts";
import { furnish } from "../populated.ts";
import { survive } from "../surviving.ts";
import { crash } from "./crash.ts";
import type { ServerOperation } from "./operation.ts";

/** The recovery from a kill of `first`, at the first of its statements that begins like this. */
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
  if (new EventLog(files.eventLog).entries("spared").length > 0)
    throw new Error(`${operation}: it has no statement "${at.statement}"`);
}

// Its transactions: one for each dead worker, one for orphans, a claim, a settle. The server rolls back what was not
// committed, so it does not matter how far the first process came.
export const surviving: readonly ServerOperation[] = [
  survivor("settle each way, and claim", { statement: "commit", when: "answered" }, 5),
  survivor("settle each way, and claim", { statement: "commit", when: "before" }, 5),
];
