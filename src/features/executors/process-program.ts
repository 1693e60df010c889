/** The program of a process for tasks. The process reads it from its stdin. */
import { Socket } from "node:net";
import { Worker as Thread } from "node:worker_threads";
import { report } from "../../events.ts";
import { LineReader, type ToChild } from "./messages.ts";
import { serve } from "./serve.ts";

/**
 * Ends this process and those that it has started when the worker's process ends, because the pipe closes then. It works even
 * while a function blocks the event loop.
 */
const watchdog = `
  const { Socket } = require("node:net");
  const life = new Socket({ fd: 4 });
  life.on("error", () => {});
  life.on("close", () => {
    const { pid } = process;
    try { process.kill(process.platform === "win32" ? pid : -pid, "SIGKILL"); } catch { process.kill(pid, "SIGKILL"); }
  });
  life.resume();
`;

const thread = new Thread(watchdog, { eval: true, execArgv: [], env: {} });
thread.on("error", (error) => report(error, "the thread that watches the worker"));
thread.unref();

const messages = new Socket({ fd: 3 });
// The channel closes when the worker closes it or ends. Then the worker or the watchdog ends this process.
messages.on("error", () => undefined);
const port = serve({ send: (message) => void messages.write(`${JSON.stringify(message)}\n`) });
const reader = new LineReader(Number.POSITIVE_INFINITY, (line) => port.receive(JSON.parse(line) as ToChild));
messages.setEncoding("utf8").on("data", (chunk: string) => reader.add(chunk));
