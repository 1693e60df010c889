/** Hooks that crashes owe: the workers of a queue run them. */

import type { Feature } from "../../worker/feature.ts";
import { internalsOf, type Queue } from "../queue.ts";
import { OwedHooks } from "./owed.ts";

export function owedHooks(queue: Queue): Feature {
  const { store } = internalsOf(queue);
  return { jobs: (host) => [new OwedHooks(store, host)] };
}
