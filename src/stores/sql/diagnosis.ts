import type { Diagnosis } from "../../store.ts";

/** A fact for `doctor`, with a warning if the condition holds. */
export function fact(name: string, value: Diagnosis["value"], isWrong = false, warning = ""): Diagnosis {
  return { name, value, ...(isWrong ? { warning } : {}) };
}
