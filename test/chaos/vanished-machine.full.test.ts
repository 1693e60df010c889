/** Invariant: that of `scenarios/vanished-machine.ts`, on each kind of server. */
import { proves } from "./scenario-test.ts";
import { vanishedFromGalera, vanishedMachine } from "./scenarios/vanished-machine.ts";

proves(vanishedMachine, "postgres");
proves(vanishedMachine, "mysql");
proves(vanishedFromGalera, "mysql");
