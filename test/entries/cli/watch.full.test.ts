/** `dbq worker --watch` runs the newest code, and stops as any worker does. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { dbq, dbqUrl, folderWithQueue, startDbq } from "./dbq.ts";

/** Writes tasks.mjs, which imports what its task returns from another module. */
function write(folder: string, answer: string): void {
  writeFileSync(join(folder, "answer.mjs"), `export const answer = ${JSON.stringify(answer)};`);
  writeFileSync(
    join(folder, "tasks.mjs"),
    `import { task } from ${JSON.stringify(dbqUrl)};
     import { answer } from "./answer.mjs";
     export const ask = task("ask", async () => answer);
     console.log("loaded " + answer);`,
  );
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
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

test("with --watch a worker starts again after each change: a save by rename, a deleted file that is back, a repaired one", async () => {
  const { folder } = await folderWithQueue();
  const file = join(folder, "answer.mjs");
  const save = (text: string) => {
    writeFileSync(`${file}~`, text);
    renameSync(`${file}~`, file);
  };
  write(folder, "first");
  const worker = startDbq(folder, ["worker", "tasks.mjs", "--watch", "--db", "dbq.db"]);
  await worker.out((line) => line === "loaded first");
  for (const answer of ["second", "third", "fourth"]) {
    save(`export const answer = "${answer}";`);
    await worker.out((line) => line === `loaded ${answer}`);
  }
  rmSync(file);
  save('export const answer = "fifth";');
  await worker.out((line) => line === "loaded fifth");
  save('export const answer = "sixth;');
  await worker.err((line) => line.includes("tasks.mjs cannot be imported"));
  save('export const answer = "seventh";');
  await worker.out((line) => line === "loaded seventh");
  writeFileSync(join(folder, "new.mjs"), "export const answer = unfinished;");
  save('export { answer } from "./new.mjs";');
  await worker.err((line) => line.includes("unfinished is not defined"));
  writeFileSync(join(folder, "new.mjs"), 'export const answer = "eighth";');
  await worker.out((line) => line === "loaded eighth");
  worker.child.kill("SIGINT");
  expect((await worker.ended).code).toBe(0);
});

test("--watch sees a change that was made between a module's import and the first look at its file", async () => {
  const { folder } = await folderWithQueue();
  write(folder, "first");
  // Until the file has changed, the process that watches stands still: it hears of the import afterwards.
  writeFileSync(
    join(folder, "tasks.mjs"),
    `import { existsSync, writeFileSync } from "node:fs";
     import { task } from ${JSON.stringify(dbqUrl)};
     if (!existsSync("begun")) process.kill(process.ppid, "SIGSTOP");
     const { answer } = await import("./answer.mjs");
     if (!existsSync("begun")) {
       writeFileSync("begun", "");
       writeFileSync("answer.mjs", 'export const answer = "second";');
       process.kill(process.ppid, "SIGCONT");
     }
     task("ask", async () => answer);
     console.log("loaded " + answer);`,
  );
  const worker = startDbq(folder, ["worker", "tasks.mjs", "--watch", "--db", "dbq.db"]);
  await worker.out((line) => line === "loaded first");
  await worker.out((line) => line === "loaded second");
  worker.child.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
});

test("a worker that --watch stops for a change finishes its task first, and then runs the new code", async () => {
  const { folder, queue } = await folderWithQueue();
  const slow = remoteTask<() => Promise<string>>("slow");
  const module = (answer: string) => `
    import { existsSync } from "node:fs";
    import { task, currentTask } from ${JSON.stringify(dbqUrl)};
    task("slow", async () => {
      currentTask().progress(1);
      while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 20));
      return "${answer}";
    });`;
  writeFileSync(join(folder, "tasks.mjs"), module("old"));
  const worker = startDbq(folder, ["worker", "tasks.mjs", "--watch", "--json", "--db", "dbq.db"]);
  const first = await queue.enqueueTask(slow);
  await worker.out((line) => line.includes('"started"'));
  writeFileSync(join(folder, "tasks.mjs"), module("new"));
  const restarting = await worker.err((line) => line.includes('"restarting"'));
  expect(JSON.parse(restarting)).toMatchObject({ message: "tasks.mjs has changed: starting again" });
  await worker.err((line) => line.includes('"stopping"'));
  writeFileSync(join(folder, "go"), "");
  expect(await queue.awaitTaskResult(first, { timeout: "30s" })).toBe("old");
  const second = await queue.enqueueTask(slow);
  expect(await queue.awaitTaskResult(second, { timeout: "30s" })).toBe("new");
  worker.child.kill("SIGTERM");
  const { code, out, err } = await worker.ended;
  expect(code).toBe(0);
  for (const line of `${out}${err}`.trim().split("\n")) JSON.parse(line);
});

test("--watch starts a worker again whose event loop is blocked, and the task runs again with the new code", async () => {
  const { folder, queue } = await folderWithQueue();
  const endless = remoteTask<() => Promise<string>>("endless");
  const module = (body: string) => `
    import { task } from ${JSON.stringify(dbqUrl)};
    task("endless", async () => { ${body} });`;
  writeFileSync(join(folder, "tasks.mjs"), module('console.log("stuck"); for (;;);'));
  const args = ["worker", "tasks.mjs", "--watch", "--grace", "50ms", "--db", "dbq.db"];
  const worker = startDbq(folder, args);
  const id = await queue.enqueueTask(endless);
  await worker.out((line) => line === "stuck");
  writeFileSync(join(folder, "tasks.mjs"), module('return "repaired";'));
  expect(await queue.awaitTaskResult(id, { timeout: "60s" })).toBe("repaired");
  worker.child.kill("SIGTERM");
  expect(await worker.ended).toMatchObject({
    code: 0,
    err: expect.stringContaining("does not stop: it is killed"),
  });
});

test("a worker stops with grace when the command that watches it was killed", async () => {
  const { folder, queue } = await folderWithQueue();
  write(folder, "one");
  const worker = startDbq(folder, ["worker", "tasks.mjs", "--watch", "--db", "dbq.db"]);
  await worker.out((line) => line.includes("ready"));
  const [{ pid = 0 } = {}] = await queue.listWorkers();
  onTestFinished(() => killIfThere(pid));
  worker.child.kill("SIGKILL");
  await vi.waitUntil(async () => (await queue.listWorkers()).length === 0, { timeout: 20_000 });
  expect((await worker.ended).out).toContain(" stopped ");
});

test("--watch refuses a missing database and a missing module, and starts nothing", async () => {
  const { folder } = await folderWithQueue();
  write(folder, "one");
  const noDatabase = await dbq(folder, ["worker", "tasks.mjs", "--watch", "--db", "none.db"]);
  expect(noDatabase).toMatchObject({ code: 1, out: "" });
  expect(noDatabase.err).toContain("none.db: there is no such file");
  const noModule = await dbq(folder, ["worker", "task.mjs", "--watch", "--db", "dbq.db"]);
  expect(noModule).toMatchObject({ code: 1, out: "" });
  expect(noModule.err).toContain("module task.mjs: there is no file");
});
