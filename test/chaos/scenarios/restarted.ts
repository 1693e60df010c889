/**
 * Invariant: when a server is restarted under load, in an orderly way or as by a power cut, nothing acknowledged is
 * lost and all processes go on by themselves.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Harness } from "../../fixtures/harness.ts";
import { demand } from "../checker.ts";
import { demandNoConflicts, failsByLoss, reportsLoss } from "../conflicts.ts";
import { Listener } from "../listener.ts";
import { Load } from "../load.ts";
import { resumeFigures, untilResumed } from "../resume.ts";
import type { Figure, Scenario, Trial } from "../scenario.ts";
import { noMariadb, OwnMariadb } from "../servers/own-mariadb.ts";
import { noPostgres, OwnPostgres } from "../servers/own-postgres.ts";
import { type OwnServer, onOwnServer } from "../servers/own-server.ts";
import { plans } from "./terminated.ts";

/** Milliseconds that the server is down, at most. */
const longestDown = 2_000;

/** Milliseconds between two restarts, in which all processes go on. */
const between = 3_000;

export const restarted: Scenario = {
  name: "restarted",
  about:
    "The server is restarted under load: every acknowledged task is kept and done, and all processes go on by themselves, with their change notifications.",
  unit: "restarts",
  amounts: { test: 1, sample: 2, chaos: 3 },
  bringsServer: ["postgres", "mysql"],
  unable: (kind) => (kind === "mysql" ? noMariadb() : noPostgres()),
  run: (trial) =>
    onOwnServer<OwnServer>(
      () => (trial.kind === "mysql" ? OwnMariadb.start() : OwnPostgres.start()),
      trial,
      onServer,
    ),
};

async function onServer(
  server: OwnServer,
  { amount, random, progress, kind, harness: { folder } }: Trial,
): Promise<Figure[]> {
  await using harness = await Harness.on(server.url, join(folder, "harness"));
  // Its files are removed with the trial's folder, which stays after a failure; its database with the server.
  harness.keep();
  const worker = { concurrency: 5 };
  const load = await Load.start(harness, {
    workers: 4,
    enqueuers: 2,
    worker,
    enqueuing: { plans, pause: 150 },
  });
  const listener = kind === "postgres" ? await Listener.start(harness) : undefined;
  if (listener) load.workers.push(listener.worker);
  const moments: number[] = [];
  for (let done = 1; done <= amount; done += 1) {
    await sleep(between * (0.5 + random()));
    await server.down(done % 2 === 1 ? "crash" : "stop");
    await sleep(longestDown * random());
    await server.up();
    moments.push(Date.now());
    progress(done);
  }
  await sleep(between);
  for (const moment of moments) await untilResumed(harness, load, moment);
  await listener?.stop();
  const history = await load.drain();
  demand(history, { allowed: reportsLoss, mayFail: failsByLoss, unanswered: true });
  demandNoConflicts(history);
  return [
    { name: "restarts", value: amount },
    ...resumeFigures(history, load, moments, { p99: 1_000, max: 2_000 }),
    ...(listener?.figures("from restart to notification", moments) ?? []),
  ];
}
