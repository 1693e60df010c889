/** `dbq doctor` judges a worker's process by the rule that rescues follow. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, onTestFinished, test } from "vitest";
import { thisProcess } from "../../../src/base/runtime/process-identity.ts";
import type { ProcessIdentity } from "../../../src/store.ts";
import { dbq, folderWithQueue } from "./dbq.ts";

interface Findings {
  problems: string[];
  workers: { liveness: string }[];
}

/** A worker's row for a process of this host, with a heartbeat of just now. */
function registerProcess(folder: string, id: string, identity: ProcessIdentity): void {
  const client = new Database(`${folder}/dbq.db`);
  client
    .prepare(
      `insert into dbq_workers (id, queue_names, concurrency, lease, host, boot_id, pid_namespace, pid, process_start)
        values (@id, '["default"]', 1, 15000, @host, @bootId, @pidNamespace, @pid, @processStart)`,
    )
    .run({ id, ...identity });
  client.close();
}

/** State and start time of a process: fields 3 and 22 of proc_pid_stat(5). */
function statOf(pid: number): { state: string | undefined; start: string | undefined } {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return { state: fields[0], start: fields[19] };
}

/** A child that was killed, of a shell that has become `sleep` and so never asks for its exit code. */
async function zombieProcess(): Promise<ProcessIdentity> {
  const parent = spawn("sh", ["-c", "sleep 600 & echo $!; exec sleep 600"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void parent.kill("SIGKILL"));
  const [line] = (await once(parent.stdout, "data")) as [Buffer];
  const pid = Number(line.toString());
  const turns = async (done: () => boolean) => {
    while (!done()) await new Promise((resolve) => setImmediate(resolve));
  };
  await turns(() => readFileSync(`/proc/${parent.pid}/comm`, "utf8").trim() === "sleep");
  const { start = "" } = statOf(pid);
  process.kill(pid, "SIGKILL");
  await turns(() => statOf(pid).state === "Z");
  return { ...thisProcess(), pid, processStart: start };
}

// Off Linux there is no /proc: neither a zombie nor a reused pid can be seen.
describe.skipIf(process.platform !== "linux")("doctor looks at a worker's process in /proc", () => {
  const problemOf = async (folder: string) => {
    const { code, out } = await dbq(folder, ["doctor", "--json"]);
    const { problems, workers } = JSON.parse(out) as Findings;
    expect(workers).toMatchObject([{ liveness: code === 0 ? "alive" : "dead" }]);
    return problems;
  };

  test("doctor reports a worker as dead when another process has its pid", async () => {
    const { folder } = await folderWithQueue();
    registerProcess(folder, "reused", { ...thisProcess(), processStart: "1" });
    expect(await problemOf(folder)).toEqual([
      expect.stringContaining("worker reused is dead: its process has ended"),
    ]);
  });

  test("doctor reports a worker as dead when its process is a zombie", async () => {
    const { folder } = await folderWithQueue();
    const zombie = await zombieProcess();
    registerProcess(folder, "zombie", zombie);
    expect(await problemOf(folder)).toEqual([
      expect.stringContaining("worker zombie is dead: its process has ended"),
    ]);
  });

  test("doctor reports a worker as alive when its process runs", async () => {
    const { folder } = await folderWithQueue();
    registerProcess(folder, "here", thisProcess());
    expect(await problemOf(folder)).toEqual([]);
  });
});
