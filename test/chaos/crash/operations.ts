/** All operations that are killed at each of their points. */

import { opening } from "./opening.ts";
import type { Operation } from "./operation.ts";
import { everywhere } from "./shared-operations.ts";
import { surviving } from "./surviving.ts";

export const operations: readonly Operation[] = [...everywhere, ...opening, ...surviving];
