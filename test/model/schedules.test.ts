/**
 * Invariant: whatever is scheduled, fired, paused, resumed, triggered, backfilled or removed in any order, and whichever
 * statement fails, a slot makes one task at most, and a call has happened or not: nothing in between.
 */
import { amount } from "../support/amount.ts";
import { Real } from "./real.ts";
import { scheduleAgreement } from "./schedules.ts";

scheduleAgreement({
  name: "model of schedules",
  open: () => Real.open(),
  faults: ["throws", "commit"],
  runs: amount(10, 100, 1_000),
});
