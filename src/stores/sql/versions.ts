/**
 * The version of what workers must know before they claim. `dbq_settings` has the newest one, and `limits_version` in the row of a
 * worker the one that its next claim must know: a feature that changes something writes both.
 */
import type { Row } from "./dialect.ts";
import { isCount } from "./rows.ts";

/** Reads the version. In the place of one that cannot be read it gives a new one, so that workers read the settings again. */
export function versionIn(row: Row | undefined): number {
  const [version = 0] = row ?? [];
  return isCount(version) ? Number(version) : Date.now();
}
