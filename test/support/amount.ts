/** How much of a test is done: a little in `npm test`, which has to be quick, and all of it in `npm run proof`. */

const full = process.env.DBQ_FULL === "1";

/** The first number in `npm test`, the second when `DBQ_FULL=1` is set. */
export const amount = (inTests: number, inFull: number): number => (full ? inFull : inTests);
