/**
 * Invariant: whatever is enqueued, drained, refused, lost on its way or rescued in any order, and at whichever statement a drain
 * dies, each task arrives at the broker at least once and ends once, and is sent again only if its drain did not settle it.
 */
import { amount } from "../support/amount.ts";
import { drainAgreement } from "./drains.ts";
import { Real } from "./real.ts";

drainAgreement({
  name: "model of drains",
  open: () => Real.open(),
  faults: ["throws", "commit"],
  runs: amount(10, 100, 150),
});
