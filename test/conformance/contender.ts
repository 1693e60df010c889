/** A process of `contention.ts`: it claims and settles as fast as it can until it is asked to finish. */
import type { Outcome, TaskVersion } from "../../src/store.ts";
import { claimBy, newWorker, outcomes } from "./arrange.ts";
import { kindNamed } from "./stores.ts";

/** What the process did; the case checks the invariants on it. */
export interface Report {
  claimed: TaskVersion[];
  /** Outcomes of its own claims that were refused. */
  refused: TaskVersion[];
  errors: string[];
}

const [kindName, url = "", workerId = "", share = "0"] = process.argv.slice(2);

const report: Report = { claimed: [], refused: [], errors: [] };
let finishing = false;
let served = false;

const send = (what: string) => process.send?.({ what, report });

async function run(): Promise<void> {
  const store = await (await kindNamed(kindName)).connect(url);
  await store.register(newWorker(workerId));
  send("ready");
  let done: Outcome[] = [];
  for (;;) {
    const last = finishing;
    const { settled, claimed } = await store.settleAndClaim({
      outcomes: done,
      claim: claimBy(workerId, { limit: 5 }),
    });
    for (const [i, { id, generationId }] of done.entries())
      if (!settled[i]) report.refused.push({ id, generationId });
    report.claimed.push(...claimed.map(({ id, generationId }) => ({ id, generationId })));
    done = claimed.map(outcomes.completed);
    if (!served && report.claimed.length >= Number(share)) {
      served = true;
      send("served");
    }
    if (last && claimed.length === 0) break;
    // An idle worker would wait for a change notification; this process polls.
    await new Promise((resolve) => (claimed.length > 0 ? setImmediate(resolve) : setTimeout(resolve, 1)));
  }
  await store.unregister(workerId);
  await store.close();
}

process.once("message", () => {
  finishing = true;
});
run()
  .catch((error: unknown) =>
    report.errors.push(error instanceof Error ? (error.stack ?? error.message) : String(error)),
  )
  .finally(() => {
    send("report");
    process.disconnect();
  });
