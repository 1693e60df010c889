/** Invariant: faults that a simulation once found, each in the smallest schedule that shows it, do not come back. */
import { expect, test } from "vitest";
import { Reference } from "./reference.ts";
import { runSchedule, type Simulation } from "./simulator.ts";
import type { Plot } from "./simulator-plot.ts";
import { isClaim, newBeat, over, overReference } from "./simulator-stores.ts";
import { planned } from "./simulator-tasks.ts";
import type { Conditions } from "./simulator-wire.ts";

const fair = { refused: 0, lost: 0, slow: 0, latency: 1, notified: 0 } as const;

/** Under these conditions, only what the test writes happens. */
function under(conditions: Partial<Conditions>, write: (plot: Plot, simulation: Simulation) => void) {
  return (plot: Plot, simulation: Simulation): void => {
    simulation.setConditions({ ...fair, ...conditions });
    write(plot, simulation);
  };
}

// The worker does not know the task that it holds, and sends heartbeats: neither is the task handed back, nor is it
// rescued.
test("a claim whose answer is lost does not hold a task for ever", async () => {
  const reference = new Reference(() => Date.now(), newBeat);
  let lost = 0;
  const { verdicts } = await runSchedule(1, {
    open: () => over(reference),
    write: under({ lost: 1 }, (plot, { plans }) => {
      const home = plot.crew.newHome(0);
      plot.crew.at(100, () => plot.crew.enqueue(home, planned(plans, { acts: ["return"], takes: 0 })));
      plot.crew.at(3_000, () => plot.calmDown());
    }),
    mayLose: (...call) => {
      if (!isClaim(...call) || reference.idle(["default"])) return false;
      lost += 1;
      return lost === 1;
    },
  });
  expect(lost).toBeGreaterThan(0);
  expect(verdicts).toEqual([]);
});

// After a step of the clock, a recent heartbeat looks old. Half a lease, less than the time between two heartbeats,
// would then be enough to declare the worker dead. Only with leases below 1.2 s.
test("a clock that is stepped forwards does not get a live worker rescued", async () => {
  const verdicts: string[] = [];
  for (let offset = 0; offset < 400; offset += 10) {
    const schedule = await runSchedule(7, {
      open: overReference,
      write: under({}, (plot, simulation) => {
        const { clock } = simulation;
        plot.crew.newHome(0);
        plot.crew.newHome(offset);
        const step = () => {
          clock.stepped += 3_600_000;
        };
        for (let at = 2_500; at < 4_500; at += 3) plot.crew.at(at, step);
        plot.crew.at(6_000, () => plot.calmDown());
      }),
    });
    verdicts.push(...schedule.verdicts);
  }
  expect(verdicts).toEqual([]);
});

/** Runs ten schedules of the test's own steps, without faults. @returns the broken promises */
async function verdictsOn(write: (plot: Plot, simulation: Simulation) => void): Promise<string[]> {
  const verdicts: string[] = [];
  for (let seed = 1; seed <= 10; seed += 1) {
    const schedule = await runSchedule(seed, { open: overReference, write: under({}, write) });
    verdicts.push(...schedule.verdicts);
  }
  return verdicts;
}

// The worker has given up its tasks, and still waits without a limit for a progress write.
test("a store that is out of reach does not delay a stop, while a handler goes on noting progress", async () => {
  const verdicts = await verdictsOn((plot, { plans }) => {
    const { crew } = plot;
    const home = crew.newHome(0);
    crew.at(100, () => crew.enqueue(home, planned(plans, { acts: ["ignore the signal"], takes: 0 })));
    crew.at(600, () => {
      crew.cut(home, 60_000);
      crew.at(0, () => crew.stopWorkers(home, 100), home);
      plot.calmDown();
    });
  });
  expect(verdicts).toEqual([]);
});

// It has no task left to give up: its task was lost before.
test("a store that is out of reach does not delay a stop after the task was lost, while its handler goes on noting progress", async () => {
  const verdicts = await verdictsOn((plot, { plans }) => {
    const { crew } = plot;
    const home = crew.newHome(0);
    const acts = ["ignore the signal", "return"] as const;
    crew.at(100, () => crew.enqueue(home, planned(plans, { acts, takes: 0 })));
    crew.at(200, () => crew.newHome(0));
    crew.at(600, () => crew.cut(home, 5_000));
    crew.at(7_000, () => {
      crew.cut(home, 60_000);
      crew.at(0, () => crew.stopWorkers(home, 100), home);
      plot.calmDown();
    });
  });
  expect(verdicts).toEqual([]);
});
