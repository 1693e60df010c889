/**
 * Invariant: when a server is restarted under load, in an orderly way or as by a power cut, nothing acknowledged is
 * lost and all processes go on by themselves.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Harness } from "../../fixtures/harness.ts";
import { disturbed } from "../disturbed.ts";
import type { Figure, Scenario, Trial } from "../scenario.ts";
import { noMariadb, OwnMariadb } from "../servers/own-mariadb.ts";
import { noPostgres, OwnPostgres } from "../servers/own-postgres.ts";
import { type OwnServer, onOwnServer } from "../servers/own-server.ts";

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

async function onServer(server: OwnServer, trial: Trial): Promise<Figure[]> {
  await using harness = await Harness.on(server.url, join(trial.harness.folder, "harness"));
  // Its files are removed with the trial's folder, which stays after a failure; its database with the server.
  harness.keep();
  const figures = await disturbed(harness, trial, {
    what: "restart",
    pause: between,
    disturb: async (round) => {
      await server.down(round % 2 === 1 ? "crash" : "stop");
      await sleep(longestDown * trial.random());
      await server.up();
      return Date.now();
    },
  });
  return [{ name: "restarts", value: trial.amount }, ...figures];
}
