/** `dbq worker --watch` runs the newest code, and stops as any worker does. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { dbq, folderWithQueue, startDbq } from "./dbq.ts";

// Runs before the imports: the modules of these tests import the sources.
vi.hoisted(() => {
  delete process.env.DBQ_COMPILED;
});

const source = new URL("../../../src/index.ts", import.meta.url).href;

/** Writes tasks.mjs, which imports what its task returns from another module. */
function write(folder: string, answer: string): void {
  writeFileSync(join(folder, "answer.mjs"), `export const answer = ${JSON.stringify(answer)};`);
  writeFileSync(
    join(folder, "tasks.mjs"),
    `import { task } from ${JSON.stringify(source)};
     import { answer } from "./answer.mjs";
     export const ask = task("ask", async () => answer);
     console.log("loaded " + answer);`,
  );
}

test("with --watch a worker stops with grace and starts again when a module changes, and a signal ends it", async () => {
  const { folder, queue } = await folderWithQueue();
  const ask = remoteTask<() => Promise<string>>("ask");
  write(folder, "one");
  const worker = startDbq(folder, ["worker", "tasks.mjs", "--watch", "--db", "dbq.db"]);
  await worker.out((line) => line.includes("ready"));
  expect(await queue.awaitTaskResult(await queue.enqueueTask(ask), { timeout: "30s" })).toBe("one");
  write(folder, "two");
  await worker.out((line) => line === "loaded two");
  expect(await queue.awaitTaskResult(await queue.enqueueTask(ask), { timeout: "30s" })).toBe("two");
  worker.child.kill("SIGTERM");
  const { code, out, err } = await worker.ended;
  expect(code).toBe(0);
  expect(out.match(/ stopped /g)).toHaveLength(2);
  expect(err).not.toContain("stopping now");
  expect(out).not.toContain("--db");
});

test("--watch refuses --json and a missing database, and starts nothing", async () => {
  const { folder } = await folderWithQueue();
  write(folder, "one");
  const asJson = await dbq(folder, ["worker", "tasks.mjs", "--watch", "--json"]);
  expect(asJson).toMatchObject({ code: 2, out: "" });
  expect(asJson.err).toContain("leave out --json");
  const missing = await dbq(folder, ["worker", "tasks.mjs", "--watch", "--db", "none.db"]);
  expect(missing).toMatchObject({ code: 1, out: "" });
  expect(missing.err).toContain("none.db: there is no such file");
});
