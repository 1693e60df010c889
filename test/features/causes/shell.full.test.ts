/** The commands of causes, as a shell reads them. */
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { printable } from "../../../src/base/text/escapes.ts";
import { remoteTask } from "../../../src/index.ts";
import { temporaryQueue } from "../../support/queue.ts";

const nobody = remoteTask<() => Promise<void>>("nobody");

/** What a shell makes of the command's words, each on a line as JSON. */
function wordsOf(command: string | null | undefined): string[] {
  const script = `dbq() { "$NODE" -e 'console.log(JSON.stringify(process.argv.slice(1)))' -- "$@"; }; ${command}`;
  const { stdout } = spawnSync("bash", ["-c", script], {
    encoding: "utf8",
    env: { ...process.env, NODE: process.execPath },
  });
  return JSON.parse(stdout);
}

const hostile = [
  "a'; exit 3; '",
  "-x",
  "a\nb",
  "\x1b[31m'\\red",
  "$(exit 3)",
  "\u202eevil\u{e0041}",
  "a b",
  "!!",
  "ü🎉",
];

test("a command is printable, and a shell reads the very name from it, whatever its characters", async (context) => {
  if (spawnSync("bash", ["--version"]).status !== 0) context.skip("bash is not installed");
  const queue = await temporaryQueue();
  await queue.setCauseThresholds({ pilingTasks: 1 });
  for (const name of hostile) {
    await queue.schedule(name, { every: "1h" }, nobody);
    await queue.triggerSchedule(name);
  }
  const found = (await queue.listCauses()).filter(({ kind }) => kind === "piling");
  expect(found).toHaveLength(hostile.length);
  for (const { schedule, fix } of found) {
    expect(printable(fix.command ?? "")).toBe(fix.command);
    expect(wordsOf(fix.command)).toEqual([
      "schedule",
      "pause",
      ...(schedule === "-x" ? ["--"] : []),
      schedule,
    ]);
  }
  for (const name of hostile) await queue.editSchedule(name, { overlap: "allow" });
  for (const { schedule, fix } of (await queue.listCauses()).filter(({ kind }) => kind === "piling")) {
    const skips = ["--overlap", "skip"];
    expect(printable(fix.command ?? "")).toBe(fix.command);
    expect(wordsOf(fix.command)).toEqual([
      ...["schedule", "edit"],
      ...(schedule === "-x" ? [...skips, "--", schedule] : [schedule, ...skips]),
    ]);
  }
});
