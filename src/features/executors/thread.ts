/** Starts a thread for tasks. */
import { MessageChannel, Worker as Thread } from "node:worker_threads";
import { setImmediate } from "../../base/runtime/timers.ts";
import { threadProgram } from "./embedded.ts";
import { StderrTail } from "./stderr.ts";
import type { ChildEnd, ChildEvents, ChildSettings, Transport } from "./transport.ts";

export function startThread({ memory }: ChildSettings, events: ChildEvents): Transport {
  const { port1: port, port2: theirs } = new MessageChannel();
  let stderr: StderrTail | undefined;
  let error: unknown;
  const onEnd = (exitCode: number | null) => {
    const end: ChildEnd = { exitCode, signal: null, stderr: stderr?.text ?? "" };
    port.close();
    events.onEnd(error === undefined ? end : { ...end, error });
  };
  let thread: Thread | undefined;
  try {
    thread = new Thread(threadProgram, {
      eval: true,
      name: "dbq task",
      // A channel of its own, since the function may use `parentPort`.
      workerData: { port: theirs },
      transferList: [theirs],
      stderr: true,
      ...(memory === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: memory / 1_048_576 } }),
    });
    stderr = new StderrTail(thread.stderr);
    thread.on("error", (thrown) => {
      error = thrown;
    });
    thread.on("exit", onEnd);
  } catch (thrown) {
    error = thrown;
    setImmediate(() => onEnd(null));
  }
  port.on("message", (message) => events.onMessage(message));
  const terminate = () => void thread?.terminate();
  return {
    send: (message) => port.postMessage(message),
    clearStderr: () => stderr?.clear(),
    terminate,
    kill: terminate,
  };
}
