/** Sees whether a worker beats, and wakes the thread that started it: that one waits with its event loop blocked. */
import { setTimeout as sleep } from "node:timers/promises";
import { workerData } from "node:worker_threads";
import pg from "pg";

/** @type {{ url: string, beats: number, seen: Int32Array }} */
const { url, beats, seen } = workerData;
const client = new pg.Client({ connectionString: url });
await client.connect();

async function beat() {
  const { rows } = await client.query("select beat from dbq_workers");
  return Number(rows[0]?.beat);
}

const before = await beat();
while ((await beat()) < before + beats) await sleep(5);
await client.end();
Atomics.store(seen, 0, 1);
Atomics.notify(seen, 0);
