/** dbq with its default options, except for `synchronous` of files. */
import { openQueue, task, Worker } from "dbq-ts";
import type { Peer, QueueLocation, Run } from "./peer.ts";

/** The handler of this process's worker; a process has at most one. */
let running: Run = () => undefined;

const step = task("step", (n: number) => running(n));

export async function openDbq({ location, synchronous }: QueueLocation): Promise<Peer> {
  // On a server, the server decides how durable a commit is.
  const onServer = /^(postgres|mysql):/.test(location);
  const queue = await openQueue(location, onServer ? {} : { synchronous });
  return {
    async enqueue(n) {
      const id = await queue.enqueueTask(step, n);
      return { completed: () => queue.awaitTaskResult(id) };
    },
    async work(run, onError) {
      running = run;
      const worker = new Worker(queue);
      worker.on("error", onError);
      await worker.start();
    },
    close: () => queue.close(),
  };
}
