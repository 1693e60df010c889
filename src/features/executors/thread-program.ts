/** The program of a thread for tasks. */
import { type MessagePort, workerData } from "node:worker_threads";
import type { ToChild } from "./messages.ts";
import { serve } from "./serve.ts";

const { port } = workerData as { port: MessagePort };
const { receive } = serve({ send: (message) => port.postMessage(message) });
port.on("message", (message: ToChild) => receive(message));
