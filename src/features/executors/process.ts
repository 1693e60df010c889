/** Starts a process for tasks, in a process group of its own: a signal also reaches the processes that it has started. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import { setTimeout } from "../../base/runtime/timers.ts";
import { processProgram } from "./embedded.ts";
import { childFlags } from "./flags.ts";
import { LineReader } from "./messages.ts";
import { StderrTail } from "./stderr.ts";
import type { ChildEvents, ChildSettings, Transport } from "./transport.ts";

/** Milliseconds to wait for the rest of stderr after a process has ended. Another process may hold the pipe open. */
const stderrMs = 100;

/** UTF-16 units of a message: a result in JSON, escaped twice at worst, and an error with its causes. */
const longestMessage = (maxPayload: number) => 8 * maxPayload + 1_000_000;

/** Windows has no process groups. */
const hasGroups = process.platform !== "win32";

export function startProcess({ memory, maxPayload }: ChildSettings, events: ChildEvents): Transport {
  // 3: the messages. 4: carries no data; it closes when this process ends, and a thread of the child waits for that.
  const child = spawn(process.execPath, [...childFlags(process.execArgv, memory), "-"], {
    detached: hasGroups,
    windowsHide: true,
    stdio: ["pipe", "inherit", "pipe", "pipe", "pipe"],
  });
  const [stdin, , stderr, messages, life] = (child.stdio ?? []) as (Socket | undefined)[];
  for (const socket of [stdin, messages, life]) socket?.on("error", () => undefined);
  stdin?.end(processProgram);
  const tail = stderr ? new StderrTail(stderr) : undefined;
  const kill = (signal: NodeJS.Signals) => signalGroup(child, signal);
  const reader = new LineReader(longestMessage(maxPayload), (line) => events.onMessage(JSON.parse(line)));
  messages?.setEncoding("utf8").on("data", (chunk: string) => {
    try {
      reader.add(chunk);
    } catch {
      // Something else writes to the channel: none of its messages can be trusted.
      kill("SIGKILL");
    }
  });
  onceEnded(child, messages, stderr, ({ exitCode, signal, error }) => {
    for (const socket of [messages, life, stderr]) socket?.destroy();
    const end = { exitCode, signal, stderr: tail?.text ?? "" };
    events.onEnd(error === undefined ? end : { ...end, error });
  });
  return {
    send: (message) => void (messages?.writable && messages.write(`${JSON.stringify(message)}\n`)),
    clearStderr: () => tail?.clear(),
    terminate: () => kill("SIGTERM"),
    kill: () => kill("SIGKILL"),
  };
}

interface Exit {
  exitCode: number | null;
  signal: string | null;
  error?: unknown;
}

/** Calls `onEnd` once the process has ended and its output was read, or when it could not be started. */
function onceEnded(
  child: ChildProcess,
  messages: Socket | undefined,
  stderr: Socket | undefined,
  onEnd: (exit: Exit) => void,
): void {
  let exit: Exit | undefined;
  let isOver = false;
  const open = new Set([messages, stderr].filter((socket) => socket !== undefined && socket !== null));
  const check = () => {
    if (exit === undefined || open.size > 0 || isOver) return;
    isOver = true;
    onEnd(exit);
  };
  for (const socket of open)
    socket.once("close", () => {
      open.delete(socket);
      // A process without a channel is of no use.
      if (socket === messages && exit === undefined) signalGroup(child, "SIGKILL");
      check();
    });
  child.on("error", (error) => {
    exit ??= { exitCode: null, signal: null, error };
    open.clear();
    check();
  });
  child.once("exit", (exitCode, signal) => {
    exit = { exitCode, signal };
    // Ends the processes that it has started, if some still run.
    signalGroup(child, "SIGKILL");
    setTimeout(() => {
      open.clear();
      check();
    }, stderrMs);
    check();
  });
}

/** Sends a signal to a process and to those that it has started, if they still run. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(hasGroups ? -pid : pid, signal);
  } catch {
    // All have ended.
  }
}
