/** The page about operating: on the mess of the demo, each of its outputs is what `dbq causes` prints, and each of its commands runs. */
import { execFile } from "node:child_process";
import { expect, onTestFinished, test, vi } from "vitest";
import { openQueue } from "../../src/index.ts";
import { startDemo } from "../demo/run.ts";
import { readPage, root } from "./pages.ts";

// Milliseconds: some thirty processes start, one after the other.
vi.setConfig({ testTimeout: 300_000 });

const page = readPage("docs/operating.md");
const blocks = (language: string) => page.code.filter((code) => code.language === language);

/** What differs each time. */
const varying: [RegExp, string][] = [
  [/\bT?\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>"],
  [/worker \S+ on \S+/g, "worker <id> on <host>"],
  [/\b[\d.]+ (?:ms|s|min|h)\b/g, "<span>"],
  [/\b\d+\b/g, "<n>"],
];
const normal = (line: string) =>
  varying.reduce((text, [pattern, by]) => text.replace(pattern, by), line.trim());

interface Ran {
  code: unknown;
  output: string;
}

/** Runs a line as a shell does, with `dbq` for the command line of these sources. */
function shell(line: string, database: string): Promise<Ran> {
  const script = `dbq() { "${process.execPath}" --import tsx src/entries/cli/main.ts "$@"; }\n${line}`;
  const options = { cwd: root, env: { ...process.env, DBQ_URL: database } };
  return new Promise((resolve) => {
    execFile("/bin/sh", ["-c", script], options, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, output: stdout + stderr }),
    );
  });
}

test("its outputs are those of the mess, and its commands repair it", async () => {
  const demo = startDemo("--mess", "--small");
  onTestFinished(() => void demo.child.kill("SIGINT"));
  let stderr = "";
  demo.child.stderr?.on("data", (text) => (stderr += text));
  await demo.says("Ctrl-C ends the demo");
  const database = /^ +database +(.+)$/m.exec(stderr)?.[1] ?? "";
  const causes = await shell("dbq causes", database);
  expect(causes.code).toBe(1);
  const printed = causes.output.split("\n").map(normal);
  const outputs = blocks("text").flatMap(({ text }) => text.trim().split("\n"));
  expect(blocks("text")).toHaveLength(10);
  for (const line of outputs) expect(printed).toContain(normal(line));

  await using queue = await openQueue(database, { migrate: false });
  const failure = "02c6337b7cd4";
  const failed = await queue.listTasks({ failure, limit: 70 });
  expect(failed).toHaveLength(70);
  const found = await queue.listCauses();
  const ids: Record<string, string> = {
    "205387": String(found.find(({ kind }) => kind === "hung")?.taskId),
    "26525": String(found.find(({ kind }) => kind === "frozen")?.workerId?.split(":")[1]),
  };
  const lines = blocks("sh").flatMap(({ text }) => text.trim().split("\n"));
  const own = lines.filter((line) => !/^npm|^dbq causes$/.test(line));
  expect(own.length).toBeGreaterThan(15);
  for (const line of own) {
    const ran = await shell(
      line.replace(/\b(?:205387|26525)\b/g, (id) => ids[id] ?? id),
      database,
    );
    expect(ran, line).toMatchObject({ code: 0 });
  }
  // The queue warehouse has no worker now, which is a cause after a minute.
  await expect
    .poll(async () => (await queue.listCauses()).map(({ key }) => key), { timeout: 20_000 })
    .not.toEqual(
      expect.arrayContaining([expect.stringMatching(/^(?:hung|unserved:default|limited|piling|frozen):/)]),
    );
  // They ran again, failed for the same reason, and are counted within 10 s. New invoices keep coming, and some fail, too.
  const ofKind = async () => (await queue.listFailures()).find(({ id }) => id === failure);
  await expect.poll(async () => (await ofKind())?.count, { timeout: 30_000 }).toBeGreaterThanOrEqual(140);
  for (const { id } of failed)
    expect(await queue.listAttempts(id)).toMatchObject([{ outcome: "failed", failure }, { failure }]);
});
