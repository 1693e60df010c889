/**
 * Invariant: while the disk is full, enqueues are refused with a DatabaseError and write nothing, and nothing
 * acknowledged is lost. Workers keep running. Outcomes from that time are settled once there is room, without a second
 * run, and within seconds all workers run tasks again.
 */

import { proves } from "./scenario-test.ts";
import { diskfull } from "./scenarios/diskfull.ts";

proves(diskfull);
