/** All operations that are killed on servers: those that are killed on files, and how they begin there. */
import { enqueueing } from "../enqueueing.ts";
import { operating } from "../operating.ts";
import { reopening } from "../reopening.ts";
import { running } from "../running.ts";
import { upkeeping } from "../upkeeping.ts";
import { opening } from "./opening.ts";
import type { ServerOperation } from "./operation.ts";
import { surviving } from "./surviving.ts";

export const operations: readonly ServerOperation[] = [
  ...enqueueing,
  ...running,
  ...operating,
  ...upkeeping,
  ...opening,
  ...reopening,
  ...surviving,
];

export function operationNamed(name: string): ServerOperation {
  const found = operations.find((each) => each.name === name);
  if (!found) throw new Error(`there is no operation "${name}"`);
  return found;
}
