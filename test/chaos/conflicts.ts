/** What a server says when two of its clients got into each other's way: nobody who uses a queue may be told of that. */
import { deepStrictEqual } from "node:assert/strict";
import type { Entry } from "../fixtures/ledger.ts";
import type { History } from "./history.ts";

const conflict = /deadlock|serializ|conflict|lock wait|record has changed|40001|40P01|55P03/i;

/** The connection was lost, or the server is not there: before, during or after what was asked of it. */
const loss =
  /terminat|connection|ECONNRE|EPIPE|not accepting|starting up|shutting down|recovery mode|server has gone|closed state|before node is ready|DBQ_OUTCOME_UNKNOWN/i;

/** @throws when a process, or an attempt, tells of a conflict */
export function demandNoConflicts({ entries, attempts }: History): void {
  const told = entries.filter(({ what, note }) => isTrouble(what) && conflict.test(String(note)));
  deepStrictEqual(told, [], "nobody is told of a conflict");
  const failed = attempts.filter(({ error }) => conflict.test(error ?? ""));
  deepStrictEqual(failed, [], "no attempt fails by a conflict");
}

const isTrouble = (what: string) => ["error", "refused", "died"].includes(what);

/** An app's own transaction ends with its connection; an enqueue of dbq's own says that its outcome is not known. */
export function tellsOfLoss({ what, note }: Entry): boolean {
  const text = String(note);
  if (what !== "refused") return false;
  return /^(order|rolled):/.test(text) ? loss.test(text) : text.includes("DBQ_OUTCOME_UNKNOWN");
}

/** A handler's own transaction may fail with its connection. */
export const failsByLoss = ({ error }: { error: string | null }): boolean => loss.test(error ?? "");
