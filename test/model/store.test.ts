/**
 * Invariant: the store on SQLite is the queue that its interface describes. For any calls in any order, with stale
 * claims, clocks that jump and statements that fail, it answers as the reference does and holds the same rows.
 */
import { amount } from "../support/amount.ts";
import { agreement } from "./agreement.ts";
import { Real } from "./real.ts";

agreement({
  name: "model of the store",
  open: () => Real.open(),
  faults: ["throws", "commit"],
  runs: amount(60, 300, 5_000),
});
