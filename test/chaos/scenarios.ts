/** All scenarios, in the order of `npm run chaos`. */
import type { Scenario } from "./scenario.ts";
import { awaits } from "./scenarios/awaits.ts";
import { children } from "./scenarios/children.ts";
import { clock } from "./scenarios/clock.ts";
import { crashpoints } from "./scenarios/crashpoints.ts";
import { cutpoints } from "./scenarios/cutpoints.ts";
import { diskfull } from "./scenarios/diskfull.ts";
import { drainKills } from "./scenarios/drains.ts";
import { failover } from "./scenarios/failover.ts";
import { foreignProcess } from "./scenarios/foreign-process.ts";
import { galera } from "./scenarios/galera.ts";
import { hours } from "./scenarios/hours.ts";
import { keys } from "./scenarios/keys.ts";
import { kills } from "./scenarios/kills.ts";
import { leases, sessions } from "./scenarios/lease.ts";
import { limits } from "./scenarios/limits.ts";
import { managerKills } from "./scenarios/manager-kills.ts";
import { openings } from "./scenarios/openings.ts";
import { pauses } from "./scenarios/pauses.ts";
import { poison } from "./scenarios/poison.ts";
import { rates } from "./scenarios/rates.ts";
import { recovery } from "./scenarios/recovery.ts";
import { replaced } from "./scenarios/replaced.ts";
import { restarted } from "./scenarios/restarted.ts";
import { scheduleKills } from "./scenarios/schedules.ts";
import { sigterm } from "./scenarios/sigterm.ts";
import { soak } from "./scenarios/soak.ts";
import { steadyKills } from "./scenarios/steady-kills.ts";
import { strategies } from "./scenarios/strategies.ts";
import { terminated } from "./scenarios/terminated.ts";
import { vanishedFromGalera, vanishedMachine } from "./scenarios/vanished-machine.ts";

export const scenarios: readonly Scenario[] = [
  kills,
  children,
  pauses,
  sigterm,
  poison,
  recovery,
  steadyKills,
  leases,
  sessions,
  soak,
  openings,
  diskfull,
  foreignProcess,
  awaits,
  replaced,
  clock,
  crashpoints,
  cutpoints,
  strategies,
  terminated,
  restarted,
  galera,
  failover,
  vanishedMachine,
  vanishedFromGalera,
  drainKills,
  managerKills,
  scheduleKills,
  hours,
  limits,
  rates,
  keys,
];
