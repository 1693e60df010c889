/**
 * Invariant: whatever starts children, waits, ends, is cancelled or emitted in any order, and whichever statement fails, a task that
 * waits is woken when what it waits for is there, and not before; groups and chains end as they are to.
 */
import { amount } from "../support/amount.ts";
import { Real } from "./real.ts";
import { workflowAgreement } from "./workflows.ts";

workflowAgreement({
  name: "model of workflows",
  open: () => Real.open(),
  faults: ["throws", "commit"],
  runs: amount(10, 60, 500),
});
