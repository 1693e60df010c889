/** The operations that open a queue on a server, with all that this creates in an empty database. */
import { opens } from "../reopening.ts";
import type { ServerOperation } from "./operation.ts";

export const opening: readonly ServerOperation[] = [
  { name: "open an empty database", commits: 1, empty: true, only: "postgres", act: opens },
  // MySQL commits each table by itself: the next process that opens the database continues.
  { name: "open an empty database, table by table", commits: 9, empty: true, only: "mysql", act: opens },
];
