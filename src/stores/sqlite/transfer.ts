/** The statements of `dbq move` on SQLite. */
import { isSource, type TransferText } from "../../features/transfer/contract.ts";

/** A literal, without NULs: SQL text ends at one. */
const quoted = (text: string): string => `'${text.replaceAll("'", "''").replaceAll("\0", "")}'`;

/**
 * The refusal is a literal: RAISE takes an expression only since 3.47, and an older SQLite opens no file with a trigger that
 * it cannot read, not even for the app's own tables.
 */
const refuses = (refusal: string, event: string, table: string, name = event, when = ""): string =>
  `create trigger dbq_move_${name} before ${event} on ${table} ${when}
    begin select raise(abort, ${quoted(refusal)}); end`;

const unlessBypassed = "when coalesce((select door from dbq_move), 0) = 0";

const onSchedules = ["schedule_insert", "schedule_update", "schedule_delete"];
const onWorkflows = ["step_insert", "event_insert", "event_update"];
const dropTriggers = ["insert", "update", "delete", "register", ...onSchedules, ...onWorkflows].map(
  (name) => `drop trigger if exists dbq_move_${name}`,
);

export const sqliteMoving: TransferText = {
  hasTable: "select 1 from sqlite_master where type = 'table' and name = 'dbq_move'",
  makeTable:
    "create table dbq_move (only_one integer primary key, move_id text not null, run text not null, state text not null, other text not null, refusal text not null, door integer not null)",
  triggers: undefined,
  freeze: ({ refusal, phase }) => [
    ...dropTriggers,
    refuses(refusal, "insert", "dbq_tasks", "insert", unlessBypassed),
    refuses(refusal, "update", "dbq_tasks", "update", unlessBypassed),
    refuses(refusal, "insert", "dbq_workers", "register", unlessBypassed),
    refuses(refusal, "insert", "dbq_schedules", "schedule_insert", unlessBypassed),
    refuses(refusal, "update", "dbq_schedules", "schedule_update", unlessBypassed),
    refuses(refusal, "insert", "dbq_steps", "step_insert", unlessBypassed),
    refuses(refusal, "insert", "dbq_events", "event_insert", unlessBypassed),
    refuses(refusal, "update", "dbq_events", "event_update", unlessBypassed),
    ...(isSource(phase) ? [refuses(refusal, "delete", "dbq_tasks")] : []),
    ...(isSource(phase) ? [refuses(refusal, "delete", "dbq_schedules", "schedule_delete")] : []),
  ],
  unfreeze: () => dropTriggers,
  lastId: (table) => `select seq from sqlite_sequence where name = '${table}'`,
  toLastId: ([seq]) => Number(seq),
  followsInserts: true,
  setLastId: (table, id) => [
    `insert into sqlite_sequence (name, seq) select '${table}', 0
      where not exists (select 1 from sqlite_sequence where name = '${table}')`,
    `update sqlite_sequence set seq = ${id} where name = '${table}'`,
  ],
};
