/** The wire is a contract for any language: an agent in Python runs what TypeScript enqueues. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test, vi } from "vitest";
import { listAgents, revokeAgent } from "../../src/features/manager/index.ts";
import { remoteTask } from "../../src/index.ts";
import { onFile, startedManager, tokenFor, urlOf } from "../features/manager/setup.ts";
import { temporaryFolder } from "../support/queue.ts";

const file = fileURLToPath(new URL("../../examples/python-agent/agent.py", import.meta.url));
const wordCount =
  remoteTask<(text: string, only?: { words: string[] }) => Record<string, number>>("word_count");
const divide = remoteTask<(a: number, b: number) => number>("divide", { maxRetries: 0 });
const waitForCancel = remoteTask("wait_for_cancel");
const funcs = ["word_count", "divide", "wait_for_cancel"];
const long = { timeout: "30s" } as const;

const { status } = spawnSync("python3", ["--version"]);
if (status !== 0) console.log("the agent in Python is not tested: there is no python3 here");

test("the agent in Python has fewer than 150 lines, as the docs say", () => {
  expect(readFileSync(file, "utf8").trimEnd().split("\n").length).toBeLessThan(150);
});

async function startedPython(urls: string, token: string, program = file): Promise<ChildProcess> {
  const stdio = ["ignore", "pipe", "inherit"] as const;
  const child = spawn("python3", [program, urls], {
    env: { ...process.env, DBQ_TOKEN: token },
    stdio: [...stdio],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout as NodeJS.ReadableStream, "data");
  return child;
}

test.skipIf(status !== 0 && !process.env.DBQ_REQUIRE_ALL).each([
  [["ftp://mgr-a"], "dbq_x", "expected URLs with http:, https: or unix:, got 'ftp://mgr-a'\n"],
  [[], "dbq_x", "expected URLs with http:, https: or unix:, got ''\n"],
  [["http://127.0.0.1:7420"], undefined, "DBQ_TOKEN is not set: dbq agent add prints a token\n"],
])("the agent in Python refuses the URLs %j with the token %s in one line", (urls, token, says) => {
  const env = { ...process.env, DBQ_TOKEN: token };
  const { status: code, stderr } = spawnSync("python3", [file, ...urls], { env, encoding: "utf8" });
  expect([code, stderr]).toEqual([1, says]);
});

test.skipIf(status !== 0 && !process.env.DBQ_REQUIRE_ALL)(
  "an agent in Python runs tasks, hears of a cancel, goes on with the next Manager, and stops on SIGTERM",
  async () => {
    const open = onFile();
    const queue = await open();
    const managers = [await startedManager(queue), await startedManager(await open())] as const;
    const python = await startedPython(managers.map(urlOf).join(), await tokenFor(queue, funcs));
    const text = "der Tag geht — é 🎉 der";
    const counts = await queue.awaitTaskResult(await queue.enqueueTask(wordCount, text), long);
    expect(counts).toEqual({ der: 2, Tag: 1, geht: 1, "—": 1, é: 1, "🎉": 1 });
    const some = wordCount.with({ kwargs: { words: ["der"] } });
    expect(await queue.awaitTaskResult(await queue.enqueueTask(some, text), long)).toEqual({ der: 2 });
    const failed = await queue.awaitTaskCompletion(await queue.enqueueTask(divide, 1, 0), long);
    expect(failed).toMatchObject({
      status: "failed",
      error: { name: "ZeroDivisionError", message: "division by zero" },
    });
    expect(failed.error?.stack).toContain("agent.py");

    const waiting = await queue.enqueueTask(waitForCancel);
    while ((await queue.getTask(waiting))?.status !== "running")
      await new Promise((resolve) => setTimeout(resolve, 20));
    await managers[0].stop();
    await queue.cancelTask(waiting);
    expect(await queue.awaitTaskResult(await queue.enqueueTask(divide, 1, 4), long)).toBe(0.25);
    python.kill("SIGTERM");
    // It waits for the function that it has told of the cancel.
    expect(await once(python, "exit")).toEqual([0, null]);
    expect((await queue.listTasks()).map(({ retryCount }) => retryCount)).toEqual([0, 0, 0, 0, 0]);
  },
  60_000,
);

test.skipIf(status !== 0 && !process.env.DBQ_REQUIRE_ALL)(
  "an agent in Python runs tasks of a Manager on a unix socket, and goes on when that starts again",
  async () => {
    const queue = await onFile()();
    // A colon in the path is no port.
    const listen = `unix:${join(temporaryFolder(), "dbq:1.sock")}`;
    const manager = await startedManager(queue, { listen });
    await startedPython(listen, await tokenFor(queue, funcs));
    expect(await queue.awaitTaskResult(await queue.enqueueTask(divide, 1, 4), long)).toBe(0.25);
    await manager.stop();
    await startedManager(queue, { listen });
    expect(await queue.awaitTaskResult(await queue.enqueueTask(divide, 1, 2), long)).toBe(0.5);
  },
  60_000,
);

test.skipIf(status !== 0 && !process.env.DBQ_REQUIRE_ALL)(
  "an agent in Python ends when its token is revoked, although a function runs",
  async () => {
    const queue = await onFile()();
    const manager = await startedManager(queue);
    const python = await startedPython(urlOf(manager), await tokenFor(queue, funcs));
    const exited = once(python, "exit");
    const id = await queue.enqueueTask(waitForCancel);
    await vi.waitFor(async () => expect((await queue.getTask(id))?.status).toBe("running"), 20_000);
    const [{ name } = { name: "" }] = await listAgents(queue);
    await revokeAgent(queue, name);
    expect(await exited).toEqual([1, null]);
  },
  // The function would go on for a minute.
  30_000,
);

test.skipIf(status !== 0 && !process.env.DBQ_REQUIRE_ALL)(
  "the task of a killed agent in Python is free within a second",
  async () => {
    const queue = await onFile()();
    const manager = await startedManager(queue);
    const python = await startedPython(urlOf(manager), await tokenFor(queue, funcs));
    const id = await queue.enqueueTask(waitForCancel);
    while ((await queue.getTask(id))?.status !== "running")
      await new Promise((resolve) => setTimeout(resolve, 20));
    const killed = performance.now();
    python.kill("SIGKILL");
    while ((await queue.getTask(id))?.status !== "pending")
      await new Promise((resolve) => setTimeout(resolve, 10));
    expect(performance.now() - killed).toBeLessThan(1_000);
  },
  60_000,
);

test.skipIf(status !== 0 && !process.env.DBQ_REQUIRE_ALL)(
  "an agent in Python keeps to the limits of its functions, and throttles one of them",
  async () => {
    const queue = await onFile()();
    const program = join(temporaryFolder(), "own.py");
    writeFileSync(
      program,
      `import sys, time; sys.path.insert(0, ${JSON.stringify(dirname(file))}); import agent
running, most = [], []

@agent.task(limit={"concurrency": 2}, uses=["api"])
def limited():
    running.append(1); most.append(len(running)); time.sleep(0.02); running.pop()
    return max(most)

@agent.task()
def busy():
    raise agent.Throttle("1h")

agent.main()
`,
    );
    const [limited, busy] = [remoteTask<() => number>("limited"), remoteTask("busy")];
    const token = await tokenFor(queue, [...funcs, "limited", "busy"]);
    await startedPython(urlOf(await startedManager(queue)), token, program);
    const ids = await queue.enqueueTasks(Array.from({ length: 6 }, () => [limited] as const));
    const most = await Promise.all(ids.map((id) => queue.awaitTaskResult(id, long)));
    expect(Math.max(...most)).toBeLessThanOrEqual(2);
    await queue.setLimit("api", { concurrency: 1 });
    const last = await queue.enqueueTasks(Array.from({ length: 4 }, () => [limited] as const));
    await Promise.all(last.map((id) => queue.awaitTaskResult(id, long)));
    const [shared] = (await queue.listLimits()).filter(({ target }) => target === "api");
    expect(shared).toMatchObject({ running: 0, concurrency: 1 });
    const id = await queue.enqueueTask(busy);
    while ((await queue.getTask(id))?.status !== "scheduled")
      await new Promise((resolve) => setTimeout(resolve, 20));
    const limits = await queue.listLimits();
    expect(
      limits.find(({ target }) => JSON.stringify(target) === '{"func":"busy"}')?.nextFreeAt,
    ).toBeInstanceOf(Date);
    expect(limits.find(({ fromCode }) => fromCode)).toBeDefined();
  },
  60_000,
);
