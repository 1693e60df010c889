/** All operations that are killed on servers: those for files, and opening a database. */
import { everywhere } from "../shared-operations.ts";
import { opening } from "./opening.ts";
import type { ServerOperation } from "./operation.ts";
import { surviving } from "./surviving.ts";

export const operations: readonly ServerOperation[] = [...everywhere, ...opening, ...surviving];
