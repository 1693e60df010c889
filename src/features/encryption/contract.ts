/** What a database does for encryption. It never sees a key. */
import type { Diagnosis } from "../../store.ts";

/** The columns with values that may be encrypted. */
// biome-ignore format: a table to read
export const sealedColumns = {
  dbq_tasks: ["args", "kwargs", "result", "error"],
  dbq_attempts: ["error_message", "error_stack", "error_cause"],
  dbq_task_logs: ["message"],
  dbq_steps: ["value", "error", "undo_error"],
  dbq_events: ["payload"],
  dbq_schedules: ["args", "kwargs"],
  dbq_failures: ["message"],
} as const;

export type SealedTable = keyof typeof sealedColumns;

/** A row with its values. */
export interface SealedRow {
  /** The task that it belongs to, or is; `null` where it belongs to none. */
  taskId: number | null;
  /** The generation of an attempt or a log line. */
  generationId: number | null;
  /** Of a step, an event or a schedule; the id of a kind of failure. */
  name: string | null;
  /** The function of the task or the schedule; `null`: there is none any more. */
  func: string | null;
  /** Whether the task waits for the result of another one, which is to become its last argument. */
  awaitsArgument: boolean;
  texts: Record<string, string | null>;
}

/** What is changed of a row; undefined: nothing. */
export type ChangeRow = (row: SealedRow) => Readonly<Record<string, string | null>> | undefined;

export interface EncryptionStore {
  /** The fingerprint of each key that has encrypted here, by its id. */
  fingerprints(): Promise<ReadonlyMap<string, string>>;

  /** Keeps the fingerprint of a key, unless there is one of this id, and returns the one that is kept. */
  keepFingerprint(keyId: string, fingerprint: string): Promise<string>;

  /** Forgets all fingerprints but this key's. */
  forgetOthers(keyId: string): Promise<void>;

  /**
   * Locks the next `limit` rows of the table behind `after`, asks `change` about each, and writes what it says, in one transaction.
   * The store may call `change` again. No state change: generations stay. `last`: where to go on; undefined: these were the last.
   */
  rewrite(
    table: SealedTable,
    after: string | undefined,
    limit: number,
    change: ChangeRow,
  ): Promise<{ rows: number; last: string | undefined }>;

  /** How many rows the table has, about. */
  size(table: SealedTable): Promise<number>;
}

export const keysFact = "encryption keys";

/**
 * What `dbq doctor` says of the keys of a database.
 * @param used the ids of the keys that have encrypted here
 * @param known those that this process has @default none: it has no option `encryption`
 */
export function encryptionFacts(used: Iterable<string>, known: ReadonlySet<string> = new Set()): Diagnosis[] {
  const ids = [...used];
  if (ids.length === 0) return [];
  const missing = ids.filter((id) => !known.has(id));
  const fact: Diagnosis = { name: keysFact, value: ids.join(", ") };
  if (missing.length === 0) return [fact];
  const warning =
    `tasks may be encrypted with the key ${missing.join(", ")}, which this process does not have: its workers leave such tasks ` +
    "alone. Give the key by the option encryption, to commands by DBQ_ENCRYPTION_KEYS; a key that no process needs any more goes with dbq reencrypt";
  return [{ ...fact, warning }];
}
