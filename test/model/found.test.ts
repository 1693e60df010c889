/**
 * Invariant: what a simulation has found once, in the smallest schedule that shows it, does not come back.
 */
import { expect, test } from "vitest";
import { Reference } from "./reference.ts";
import { runSchedule, type Simulation } from "./simulator.ts";
import type { Plot } from "./simulator-plot.ts";
import { isClaim, newBeat, over, overReference } from "./simulator-stores.ts";
import { planned } from "./simulator-tasks.ts";
import type { Weather } from "./simulator-wire.ts";

const fair = { refused: 0, lost: 0, slow: 0, latency: 1, told: 0 } as const;

/** Only what a test writes happens, in this weather. */
function inWeather(weather: Partial<Weather>, write: (plot: Plot, simulation: Simulation) => void) {
  return (plot: Plot, simulation: Simulation): void => {
    simulation.setWeather({ ...fair, ...weather });
    write(plot, simulation);
  };
}

// The worker has never heard of the task that it holds, and it beats: nobody hands it back, and nobody frees it.
test("a claim whose answer is lost holds no task for ever", async () => {
  const reference = new Reference(() => Date.now(), newBeat);
  let lost = 0;
  const { verdicts } = await runSchedule(1, {
    open: () => over(reference),
    write: inWeather({ lost: 1 }, (plot, { plans }) => {
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

// A beat that was seen to come looks old by a clock that was stepped since: half a lease, less than from one beat to the
// next and what may come between, is then enough to be taken for dead. Only where the lease is shorter than 1.2 s.
test("a clock that is stepped forwards takes no worker that beats for dead", async () => {
  const verdicts: string[] = [];
  for (let offset = 0; offset < 400; offset += 10) {
    const schedule = await runSchedule(7, {
      open: overReference,
      write: inWeather({}, (plot, simulation) => {
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

/** Ten schedules of what a test writes, in fair weather. @returns what is wrong with them */
async function verdictsOn(write: (plot: Plot, simulation: Simulation) => void): Promise<string[]> {
  const verdicts: string[] = [];
  for (let seed = 1; seed <= 10; seed += 1) {
    const schedule = await runSchedule(seed, { open: overReference, write: inWeather({}, write) });
    verdicts.push(...schedule.verdicts);
  }
  return verdicts;
}

// The worker has given up on its tasks, and still waits for a note of progress to be written, without a limit.
test("a store that is out of reach holds up no stop, though a handler goes on noting its progress", async () => {
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

// It has nothing left to give up: what it held was lost before.
test("nor does it hold up who has lost his task, and whose handler goes on noting its progress", async () => {
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
