/** What a process has used since its start, with all threads. */
import { sharedNow } from "../processes/clock.ts";

export interface Usage {
  /** On the shared clock, in milliseconds. */
  at: number;
  /** Milliseconds of CPU. */
  cpu: number;
}

export function usage(): Usage {
  const { user, system } = process.cpuUsage();
  return { at: sharedNow(), cpu: (user + system) / 1_000 };
}
