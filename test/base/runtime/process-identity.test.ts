/** Whether another process is dead: never for one that lives, at once for an observable one that has ended. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { describe, expect, it, onTestFinished } from "vitest";
import { livenessOf, thisProcess } from "../../../src/base/runtime/process-identity.ts";
import type { ProcessIdentity } from "../../../src/store.ts";

const here = thisProcess();

function fieldsOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** A process on this host, by its pid and its true start time. */
function other(pid: number): ProcessIdentity {
  return { ...here, pid, processStart: fieldsOf(pid)[19] ?? null };
}

/** A child that has printed a line, killed after the test. */
async function started(
  command: string,
  args: string[],
): Promise<{ child: ChildProcess; pid: number; line: string }> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [data] = (await once(child.stdout, "data")) as [Buffer];
  return { child, pid: child.pid as number, line: data.toString().trim() };
}

const sleeper = (title = "sleeper") =>
  started(process.execPath, [
    "-e",
    `process.title = ${JSON.stringify(title)}; console.log("up"); setInterval(() => 1, 1e6)`,
  ]);

/** Resolves when the process has this state in /proc. */
async function inState(pid: number, state: string): Promise<void> {
  while (fieldsOf(pid)[0] !== state) await new Promise((resolve) => setImmediate(resolve));
}

/** Resolves when the process has become this program. */
async function named(pid: number, program: string): Promise<void> {
  while (readFileSync(`/proc/${pid}/comm`, "utf8").trim() !== program)
    await new Promise((resolve) => setImmediate(resolve));
}

describe("this process", () => {
  it("has an identity, and is not dead", () => {
    expect(livenessOf(here)).not.toBe("dead");
    expect(here.pid).toBe(process.pid);
    expect(here.host).not.toBe("");
    expect(thisProcess()).toBe(here);
  });
});

// Without /proc, outside of Linux, only the existence of a pid can be observed.
describe.skipIf(process.platform !== "linux")("another process (skipped where there is no /proc)", () => {
  it("has a boot id, a pid namespace and a start time", () => {
    expect(here.bootId).toMatch(/^[0-9a-f-]{36}$/);
    expect(here.pidNamespace).toMatch(/^pid:\[\d+\]$/);
    expect(here.processStart).toMatch(/^\d+$/);
  });

  it("that runs is not dead, with any name in /proc", async () => {
    for (const title of ["sleeper", ") Z 1 2", "x) X (y)"]) {
      const { pid } = await sleeper(title);
      expect(livenessOf(other(pid))).toBe("unknown");
      expect(livenessOf({ ...other(pid), processStart: null })).toBe("unknown");
    }
  });

  it("that was killed is dead once it is gone", async () => {
    const { child, pid } = await sleeper();
    const identity = other(pid);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(livenessOf(identity)).toBe("dead");
  });

  it("whose pid belongs to another process now is dead", async () => {
    const { pid } = await sleeper();
    const identity = { ...other(pid), processStart: String(Number(other(pid).processStart) - 1) };
    expect(livenessOf(identity)).toBe("dead");
    expect(livenessOf({ ...here, processStart: "1" })).toBe("dead");
  });

  it("that is a zombie is dead", async () => {
    // The shell becomes a sleep, which never reads the exit status of the shell's child.
    const { pid: parent, line } = await started("sh", ["-c", "sleep 60 & echo $!; exec sleep 60"]);
    const zombie = Number(line);
    await named(parent, "sleep");
    process.kill(zombie, "SIGKILL");
    await inState(zombie, "Z");
    expect(livenessOf(other(zombie))).toBe("dead");
  });

  it("that is stopped is not dead, so that its heartbeat decides", async () => {
    const { child, pid } = await sleeper();
    child.kill("SIGSTOP");
    await inState(pid, "T");
    expect(livenessOf(other(pid))).toBe("unknown");
  });

  it("that cannot be observed from here is unknown, even with a pid that does not exist", async () => {
    const { child, pid } = await sleeper();
    const identity = other(pid);
    child.kill("SIGKILL");
    await once(child, "exit");
    for (const elsewhere of [
      { host: "elsewhere" },
      { bootId: "another boot" },
      { bootId: null },
      { pidNamespace: "pid:[1]" },
    ])
      expect(livenessOf({ ...identity, ...elsewhere })).toBe("unknown");
  });
});
