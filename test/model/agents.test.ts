/**
 * Invariant: whatever the sessions of agents claim, claim again or settle in any order, whichever of them end, and whichever
 * statement fails, one session at a time has a task, no outcome of an older generation counts, and no task is lost.
 */
import { amount } from "../support/amount.ts";
import { agentAgreement } from "./agents.ts";
import { Real } from "./real.ts";

agentAgreement({
  name: "model of agents",
  open: () => Real.open(),
  faults: ["throws", "commit"],
  runs: amount(10, 100, 400),
});
