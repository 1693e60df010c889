/** A worker in a process of its own: its first argument is the database. */
import { openQueue, Worker } from "../../../src/index.ts";
import "./tasks.ts";

const queue = await openQueue(process.argv[2] as string);
await new Worker(queue, { concurrency: 4 }).start();
