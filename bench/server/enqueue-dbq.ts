/** dbq on a server, with its default options. */
import { openQueue } from "dbq-ts";
import type { Server } from "../benchmark.ts";
import { enqueueIn } from "../enqueue/dbq.ts";
import type { EnqueueVariant } from "../enqueue/variants.ts";
import type { Timed } from "../warm-up.ts";
import { onServer } from "./databases.ts";

export function enqueueDbqOn(server: Server): () => Timed<EnqueueVariant> {
  return () =>
    onServer(server, async (run) => {
      await using queue = await openQueue(run.url);
      return await enqueueIn(queue, run);
    });
}
