/**
 * Invariant: while the disk is full, enqueues are refused with a DatabaseError and are not there, and nothing that was
 * acknowledged is lost. Workers do not end; what their handlers finish meanwhile is settled once there is room again,
 * without a second run, and within seconds they are at work as before.
 */
import { diskfull } from "./scenarios/diskfull.ts";
import { proves } from "./told.ts";

proves(diskfull);
