/**
 * The floor: hand-written node-postgres on dbq's tables. An enqueuer notifies in the same statement, a worker listens
 * on a separate connection. It has no worker row, heartbeat, retry, timeout, check of values or maintenance.
 */
import pg from "pg";
import type { Peer, QueueLocation, Run } from "../processes/peer.ts";
import { type Finished, openRaw, rawInsertNotifying, rawTurn } from "./raw-postgres.ts";

const channel = "floor";

export async function openFloor({ location }: QueueLocation): Promise<Peer> {
  const client = await openRaw(location);
  return {
    async enqueue(n) {
      await rawInsertNotifying(client, channel, { func: "step", args: `[${n}]` });
      return {};
    },
    async work(run, onError) {
      const drain = drainOf(client, run, onError);
      const listener = new pg.Client({ connectionString: location });
      await listener.connect();
      listener.on("notification", drain);
      await listener.query(`listen ${channel}`);
      setInterval(drain, 1_000);
    },
    close: () => client.end(),
  };
}

/** Runs pending tasks, ten at a time. When it is called during a run, it reads once more at the end. */
function drainOf(client: pg.Client, run: Run, onError: (error: unknown) => void): () => void {
  let running = false;
  let again = false;
  const drain = async () => {
    let finished: Finished[] = [];
    do {
      again = false;
      const claimed = await rawTurn(client, "step", finished, 10);
      for (const [, , args] of claimed) await run(JSON.parse(args)[0]);
      finished = claimed.map(([id, generation]) => ({ id, generation, result: "null" }));
    } while (finished.length > 0 || again);
  };
  return () => {
    again = true;
    if (running) return;
    running = true;
    drain()
      .catch(onError)
      .finally(() => {
        running = false;
      });
  };
}
