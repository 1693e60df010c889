/** What a move needs of Postgres. */
import { isSource } from "../../store.ts";
import type { TransferText } from "../sql/dialect.ts";

/** A lock that does not come is waited for again: while it is waited for, nobody else gets one either. */
const settings = ["set local client_min_messages = warning", "set local lock_timeout = '5s'"];

const sequence = (table: string): string => `pg_get_serial_sequence('${table}', 'id')::regclass`;

/**
 * Whoever writes may have no right to read the mark, and may see other schemas: so it is read with the rights of who moves,
 * and by its full name. No schema of anybody else's is looked in, his own temporary one last: what he calls `dbq_move`
 * would run with those rights.
 */
const refuse = `do $make$ begin
  execute format($create$
    create function dbq_move_refuse() returns trigger language plpgsql security definer
      set search_path = pg_catalog, pg_temp as $body$
    begin
      if tg_op = 'DELETE' or coalesce((select door from %1$s), 0) = 0 then
        raise exception '%%', coalesce((select refusal from %1$s), 'this queue is being moved');
      end if;
      return new;
    end $body$
  $create$, (select format('%I.%I', nspname, relname) from pg_class join pg_namespace n on n.oid = relnamespace
    where pg_class.oid = 'dbq_move'::regclass));
end $make$`;

/** A row at a time where no row is no change, as of workers that look for work. */
const refuses = (name: string, event: string, table: string, each: "row" | "statement"): string =>
  `create trigger dbq_move_${name} before ${event} on ${table} for each ${each} execute function dbq_move_refuse()`;

const unseal = [
  ...settings,
  "drop trigger if exists dbq_move_insert on dbq_tasks",
  "drop trigger if exists dbq_move_update on dbq_tasks",
  "drop trigger if exists dbq_move_delete on dbq_tasks",
  "drop trigger if exists dbq_move_register on dbq_workers",
  "drop function if exists dbq_move_refuse()",
];

export const postgresMoving: TransferText = {
  hasTable: "select 1 where to_regclass('dbq_move') is not null",
  makeTable:
    "create table dbq_move (only_one integer primary key, move_id text not null, run text not null, state text not null, other text not null, refusal text not null, door integer not null)",
  triggers: undefined,
  freeze: ({ phase }) => [
    ...unseal,
    refuse,
    refuses("insert", "insert", "dbq_tasks", "statement"),
    refuses("update", "update", "dbq_tasks", "row"),
    refuses("register", "insert", "dbq_workers", "statement"),
    ...(isSource(phase) ? [refuses("delete", "delete", "dbq_tasks", "row")] : []),
  ],
  unfreeze: () => unseal,
  lastId: (table) => `select coalesce(pg_sequence_last_value(${sequence(table)}), 0)`,
  toLastId: ([last]) => Number(last),
  setLastId: (table, id) => [`select setval(${sequence(table)}, ${id})`],
};
