/** A module of tasks that cannot be imported in a thread or a process. */
import { isMainThread } from "node:worker_threads";

if (process.env.DBQ_TEST_PARENT !== String(process.pid) || !isMainThread) throw new RangeError("not here");
