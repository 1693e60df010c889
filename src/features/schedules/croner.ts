/** Loads croner when the first schedule needs it: apps without schedules do not pay for it. */
import { createRequire } from "node:module";
import { packageFile } from "../../base/runtime/packages.ts";

type Croner = typeof import("croner");

let loaded: Croner | undefined;

/** Wherever there is time to wait: a bundle has croner only by this import. */
export async function loadCroner(): Promise<void> {
  loaded ??= await import("croner");
}

/** At once, since a transaction on SQLite waits for nothing. @throws Error in a bundle in which it is not loaded yet */
export function croner(): Croner {
  if (loaded === undefined) {
    const file = packageFile("croner");
    if (file === undefined)
      throw new Error("croner is not loaded yet: await queue.listSchedules() before the transaction");
    loaded = createRequire(file)(file) as Croner;
  }
  return loaded;
}
