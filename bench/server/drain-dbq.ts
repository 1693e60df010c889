/** dbq on a server: one process, one worker, its default options or these. */
import { openQueue, type QueueOptions } from "dbq-ts";
import type { Server } from "../benchmark.ts";
import { drainIn } from "../drain/dbq.ts";
import type { DrainVariant } from "../drain/variants.ts";
import type { Timed } from "../warm-up.ts";
import { settle } from "./connection.ts";
import { onServer, type ServerRun } from "./databases.ts";

type Run = ServerRun<DrainVariant>;

export function drainDbqOn(
  server: Server,
  options: QueueOptions = {},
): (variant: DrainVariant) => Timed<DrainVariant> {
  const open = ({ url }: Run) => openQueue(url, options);
  return (variant) =>
    onServer(
      server,
      drainIn(variant, open, async ({ url }: Run) => await settle(url)),
    );
}
