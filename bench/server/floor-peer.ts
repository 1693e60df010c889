/**
 * The floor: node-postgres by hand on dbq's tables. Who enqueues notifies in the same statement, who works listens on a
 * connection of its own. There is no worker's row, no heartbeat, no retry, no timeout, no check of values and no upkeep.
 */
import pg from "pg";
import type { Peer, Place, Run } from "../processes/peer.ts";
import { type Finished, openRaw, rawInsertNotifying, rawTurn } from "./raw-postgres.ts";

const channel = "floor";

export async function openFloor({ location }: Place): Promise<Peer> {
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

/** Runs what is pending, ten at a time; called while it does, it looks once more. */
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
