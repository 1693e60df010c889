/** A Manager on a unix socket. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { Manager } from "../../../src/features/manager/index.ts";
import { openQueue } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";

async function setUp() {
  const path = join(temporaryFolder(), "manager.sock");
  const queue = await openQueue(":memory:");
  onTestFinished(() => queue.close());
  return { path, start: async () => await started(new Manager(queue, { listen: `unix:${path}` })) };
}

async function started(manager: Manager): Promise<Manager> {
  await manager.start();
  onTestFinished(() => manager.stop());
  return manager;
}

/** Leaves a socket on which nobody listens. */
async function leaveStale(path: string): Promise<void> {
  const listen = `require("node:net").createServer().listen(${JSON.stringify(path)}, () => console.log("on"))`;
  const child = spawn(process.execPath, ["-e", listen], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await once(child, "exit");
}

it("replaces the socket that a killed process has left", async () => {
  const { path, start } = await setUp();
  await leaveStale(path);
  expect(existsSync(path)).toBe(true);
  expect((await start()).url).toBe(`unix:${path}`);
  expect(readdirSync(dirname(path))).toEqual(["manager.sock"]);
});

it("does not start where another process listens, and leaves that one alone", async () => {
  const { path, start } = await setUp();
  const first = await start();
  await expect(start()).rejects.toThrow(`unix:${path}: another process listens on this socket`);
  await first.stop();
  await start();
});

it("does not replace a file that is not a socket", async () => {
  const { path, start } = await setUp();
  writeFileSync(path, "mine");
  await expect(start()).rejects.toThrow(`unix:${path}: there is a file that is not a socket`);
  expect(readFileSync(path, "utf8")).toBe("mine");
});
