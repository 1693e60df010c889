/**
 * Invariant: whatever is enqueued, claimed, settled, cancelled, rescued, limited, paused or throttled in any order, and
 * whichever statement fails, no more tasks run than each limit allows, no rate is passed, no slot leaks, groups take turns,
 * and a call that fails has changed nothing.
 */
import { amount } from "../support/amount.ts";
import { limiterAgreement } from "./limiter.ts";
import { Real } from "./real.ts";

limiterAgreement({
  name: "model of limits",
  open: () => Real.open(),
  faults: ["throws", "commit"],
  runs: amount(3, 60, 600),
});
