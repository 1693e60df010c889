/** The files of docs/deploying.md are what Docker, systemd and Kubernetes read, and their limits fit the worker's grace. */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "../support/queue.ts";
import { readPage } from "./pages.ts";

const page = readPage("docs/deploying.md");

/** The block that begins with this name in a comment. */
function fileNamed(name: string): string {
  const block = page.code.find(({ text }) => text.startsWith(`# ${name}\n`));
  expect(block, name).toBeDefined();
  return String(block?.text);
}

/** Runs a tool. @returns its output and exit code; undefined where it is not installed */
function tool(file: string, args: readonly string[]): Promise<{ code: unknown; output: string } | undefined> {
  return new Promise((resolve) => {
    execFile(file, args, (error, stdout, stderr) => {
      if (error?.code === "ENOENT") console.log(`left out: ${file} is not installed`);
      resolve(error?.code === "ENOENT" ? undefined : { code: error?.code ?? 0, output: stdout + stderr });
    });
  });
}

/** Seconds of the first match. */
const secondsIn = (text: string, pattern: RegExp): number => Number(pattern.exec(text)?.[1]);

describe("the Dockerfile", () => {
  const text = fileNamed("Dockerfile");

  test("has only instructions of Docker", () => {
    const words = text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => line.split(" ")[0]);
    expect(new Set(words)).toEqual(new Set(["FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "CMD"]));
  });

  test("starts the worker as a list of arguments, so that no shell keeps its signals", () => {
    const command = JSON.parse(/^CMD (.*)$/m.exec(text)?.[1] ?? "");
    expect(command.slice(0, 1)).toEqual(["node"]);
    const limit = secondsIn(page.lines.join("\n"), /--stop-timeout (\d+)/);
    expect(limit).toBeGreaterThan(secondsIn(command.join(" "), /--grace (\d+)s/));
  });
});

describe("the unit of systemd", () => {
  const text = fileNamed("/etc/systemd/system/shop-worker@.service");

  test("is one that systemd-analyze accepts", async ({ skip }) => {
    const path = join(temporaryFolder(), "shop-worker@.service");
    writeFileSync(
      path,
      text.replace("/usr/bin/node", process.execPath).replace(/^(User|WorkingDirectory)=.*\n/gm, ""),
    );
    const verified = await tool("systemd-analyze", ["verify", "--man=no", path]);
    if (verified === undefined) return skip();
    // It also warns of units of other packages on this machine.
    const about = verified.output.split("\n").filter((line) => line !== "" && !/^\/(usr\/)?lib\//.test(line));
    expect({ ...verified, output: about }).toEqual({ code: 0, output: [] });
  });

  test("kills the worker only after its grace", () => {
    expect(secondsIn(text, /TimeoutStopSec=(\d+)/)).toBeGreaterThan(secondsIn(text, /--grace (\d+)s/));
  });
});

describe("the manifests of Kubernetes", () => {
  const text = fileNamed("worker.yaml");

  test("are YAML with a Deployment and a Job", async ({ skip }) => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "worker.yaml"), text);
    writeFileSync(join(folder, "kustomization.yaml"), "resources: [worker.yaml]\n");
    const built = await tool("kubectl", ["kustomize", folder]);
    if (built === undefined) return skip();
    expect(built.code, built.output).toBe(0);
    expect(built.output.match(/^kind: \w+/gm)).toEqual(["kind: Deployment", "kind: Job"]);
  });

  test("give the worker more time than its grace", () => {
    const program = page.code.find(({ text }) => text.startsWith("// worker.ts\n"));
    const limit = secondsIn(text, /terminationGracePeriodSeconds: (\d+)/);
    expect(limit).toBeGreaterThan(secondsIn(String(program?.text), /grace: "(\d+)s"/));
  });
});
