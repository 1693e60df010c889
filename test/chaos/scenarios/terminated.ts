/**
 * Invariant: when all connections to a server are ended at once, again and again, nothing is lost or done twice and all
 * go on by themselves.
 */
import { backendOf } from "../backends/backend.ts";
import { disturbed } from "../disturbed.ts";
import type { Scenario } from "../scenario.ts";

/** Milliseconds between two terminations. */
const pause = 2_000;

export const terminated: Scenario = {
  name: "terminated",
  about:
    "The server ends all connections every two seconds: nothing is lost or done twice, and all processes go on by themselves.",
  unit: "rounds",
  amounts: { test: 1, sample: 2, chaos: 10 },
  only: { kinds: ["postgres", "mysql"], why: "a file has no connections to end" },
  async run(trial) {
    const { harness, amount } = trial;
    const { terminate } = backendOf(harness.database);
    let connections = 0;
    const figures = await disturbed(harness, trial, {
      what: "disconnect",
      pause,
      disturb: async () => {
        const moment = Date.now();
        connections += (await terminate?.(harness.database)) ?? 0;
        return moment;
      },
    });
    return [{ name: "rounds", value: amount }, { name: "ended connections", value: connections }, ...figures];
  },
};
