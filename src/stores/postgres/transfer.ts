/** The statements of `dbq move` on Postgres. */
import { isSource, type TransferText } from "../../features/transfer/contract.ts";

/** While DDL waits for a table's lock, all other statements wait behind it: it gives up soon, and is tried again. */
const settings = ["set local client_min_messages = warning", "set local lock_timeout = '5s'"];

const sequence = (table: string): string => `pg_get_serial_sequence('${table}', 'id')::regclass`;

/**
 * A writer may have no right to read the transfer state, and may search other schemas. So the function reads it with the
 * rights of the user who moves, and by its full name. It searches no schema in which the writer could put a `dbq_move` of
 * his own, which would be read with those rights; the writer's temporary schema comes last.
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

/** The statement for each table of finished tasks (`partitions.ts`), in place of `%s`: they do not inherit triggers. */
const onPartitions = (statement: string): string => `do $each$ declare part regclass; begin
  for part in select inhrelid from pg_inherits where inhparent = 'dbq_tasks'::regclass loop
    execute format('${statement}', part);
  end loop;
end $each$`;

const dropTriggers = [
  ...settings,
  onPartitions("drop trigger if exists dbq_move_delete on %s"),
  "drop trigger if exists dbq_move_insert on dbq_tasks",
  "drop trigger if exists dbq_move_update on dbq_tasks",
  "drop trigger if exists dbq_move_delete on dbq_tasks",
  "drop trigger if exists dbq_move_register on dbq_workers",
  "drop trigger if exists dbq_move_schedule_insert on dbq_schedules",
  "drop trigger if exists dbq_move_schedule_update on dbq_schedules",
  "drop trigger if exists dbq_move_schedule_delete on dbq_schedules",
  "drop trigger if exists dbq_move_step_insert on dbq_steps",
  "drop trigger if exists dbq_move_event_insert on dbq_events",
  "drop trigger if exists dbq_move_event_update on dbq_events",
  "drop function if exists dbq_move_refuse()",
];

export const postgresMoving: TransferText = {
  hasTable: "select 1 where to_regclass('dbq_move') is not null",
  makeTable:
    "create table dbq_move (only_one integer primary key, move_id text not null, run text not null, state text not null, other text not null, refusal text not null, door integer not null)",
  triggers: undefined,
  freeze: ({ phase }) => [
    ...dropTriggers,
    refuse,
    refuses("insert", "insert", "dbq_tasks", "statement"),
    refuses("update", "update", "dbq_tasks", "row"),
    refuses("register", "insert", "dbq_workers", "statement"),
    refuses("schedule_insert", "insert", "dbq_schedules", "statement"),
    refuses("schedule_update", "update", "dbq_schedules", "row"),
    refuses("step_insert", "insert", "dbq_steps", "statement"),
    refuses("event_insert", "insert", "dbq_events", "statement"),
    refuses("event_update", "update", "dbq_events", "row"),
    ...(isSource(phase)
      ? [
          refuses("delete", "delete", "dbq_tasks", "row"),
          onPartitions(refuses("delete", "delete", "%s", "row")),
          refuses("schedule_delete", "delete", "dbq_schedules", "row"),
        ]
      : []),
  ],
  unfreeze: () => dropTriggers,
  lastId: (table) => `select coalesce(pg_sequence_last_value(${sequence(table)}), 0)`,
  toLastId: ([last]) => Number(last),
  followsInserts: false,
  setLastId: (table, id) => [`select setval(${sequence(table)}, ${id})`],
};
