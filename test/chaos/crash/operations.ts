/** All operations whose points are killed at. */
import { enqueueing } from "./enqueueing.ts";
import { opening } from "./opening.ts";
import { operating } from "./operating.ts";
import type { Operation } from "./operation.ts";
import { reopening } from "./reopening.ts";
import { running } from "./running.ts";
import { surviving } from "./surviving.ts";
import { upkeeping } from "./upkeeping.ts";

export const operations: readonly Operation[] = [
  ...enqueueing,
  ...running,
  ...operating,
  ...upkeeping,
  ...opening,
  ...reopening,
  ...surviving,
];
