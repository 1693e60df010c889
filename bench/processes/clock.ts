/** A clock that all processes of one machine share: CLOCK_MONOTONIC on Linux, in milliseconds. */
export function sharedNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** A period on that clock. */
export interface Window {
  from: number;
  until: number;
}

export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
