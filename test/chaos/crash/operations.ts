/** All operations whose points are killed at. */
import { everywhere } from "./everywhere.ts";
import { opening } from "./opening.ts";
import type { Operation } from "./operation.ts";
import { surviving } from "./surviving.ts";

export const operations: readonly Operation[] = [...everywhere, ...opening, ...surviving];
