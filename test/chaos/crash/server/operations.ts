/** All operations that are killed on servers: those that are killed on files, and how they begin there. */
import { everywhere } from "../everywhere.ts";
import { opening } from "./opening.ts";
import type { ServerOperation } from "./operation.ts";
import { surviving } from "./surviving.ts";

export const operations: readonly ServerOperation[] = [...everywhere, ...opening, ...surviving];
