/** Errors of a server about conflicts between its clients. A user of a queue must never get one. */
import { deepStrictEqual } from "node:assert/strict";
import type { Entry } from "../fixtures/event-log.ts";
import type { History } from "./history.ts";

const conflict = /deadlock|serializ|conflict|lock wait|record has changed|40001|40P01|55P03/i;

/** The connection was lost or the server was down: before, during or after a statement. */
const loss =
  /terminat|connection|ECONNRE|EPIPE|not accepting|starting up|shutting down|recovery mode|server has gone|closed state|before node is ready|DBQ_OUTCOME_UNKNOWN/i;

/** @throws Error when a process or an attempt reports a conflict */
export function demandNoConflicts({ entries, attempts }: History): void {
  const conflicts = entries.filter(({ what, note }) => isTrouble(what) && conflict.test(String(note)));
  deepStrictEqual(conflicts, [], "no process reports a conflict");
  const failed = attempts.filter(({ error }) => conflict.test(error ?? ""));
  deepStrictEqual(failed, [], "no attempt fails by a conflict");
}

const isTrouble = (what: string) => ["error", "refused", "died"].includes(what);

/** An app's own transaction fails with its connection; an enqueue by dbq fails with DBQ_OUTCOME_UNKNOWN. */
export function reportsLoss({ what, note }: Entry): boolean {
  const text = String(note);
  if (what !== "refused") return false;
  return /^(order|rolled):/.test(text) ? loss.test(text) : text.includes("DBQ_OUTCOME_UNKNOWN");
}

/** A handler's own transaction may fail with its connection. */
export const failsByLoss = ({ error }: { error: string | null }): boolean => loss.test(error ?? "");
