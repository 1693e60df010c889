/** dbq with the options that it has by default, but for `synchronous` of files. */
import { openQueue, task, Worker } from "dbq-ts";
import type { Peer, Place, Run } from "./peer.ts";

/** What this process's worker does; a process has one at most. */
let running: Run = () => undefined;

const step = task("step", (n: number) => running(n));

export async function openDbq({ location, synchronous }: Place): Promise<Peer> {
  // How durable a commit is on a server is up to that server.
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
