import type { Diagnosis } from "../../store.ts";

/** A fact for `doctor`, with a warning if the condition holds. */
export function fact(name: string, value: Diagnosis["value"], isWrong = false, warning = ""): Diagnosis {
  return { name, value, ...(isWrong ? { warning } : {}) };
}

/** The part of a server's connections from which on it is nearly full. */
const nearlyFull = 0.9;

/** @param most how many connections the server has room for */
export const connectionsFact = (connections: number, most: number, advice: string): Diagnosis =>
  fact(
    "connections",
    connections,
    connections >= most * nearlyFull,
    `the server will refuse more soon: ${advice}`,
  );
