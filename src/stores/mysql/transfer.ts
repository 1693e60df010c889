/**
 * The statements of `dbq move` on MySQL and MariaDB.
 *
 * DDL commits by itself there. So a run may check that the transfer state is its own, pause while another run begins and
 * ends, and only then create or drop triggers. That is harmless: a trigger reads the state, so that one which comes too late
 * refuses no write. Each run's triggers have names of their own. A run drops only triggers that it saw before it last owned
 * the state: a later run creates its triggers once it owns the state, so none of them is among those. A run that fills the
 * new database drops its triggers only when all rows are there.
 */
import { isSource, type TransferText } from "../../features/transfer/contract.ts";

const isFrozen = "state in ('preparing', 'filling', 'closing', 'moved') and door = 0";
const old = "state in ('closing', 'moved')";

/**
 * Reads the state with a lock, as it is now: the writer's transaction may have begun long before. `max` always returns a row:
 * without one, each insert would have a warning. A message has at most 128 characters. The variable needs a character set of
 * its own: the database's may lack characters.
 */
const refuses = (name: string, event: string, table: string, when: string): string =>
  `create trigger ${name} before ${event} on ${table} for each row begin
    declare reason varchar(128) character set utf8mb4;
    select max(left(refusal, 128)) into reason from dbq_move where only_one = 1 and ${when} lock in share mode;
    if reason is not null then
      signal sqlstate '45000' set message_text = reason;
    end if;
  end`;

// Seconds. By default DDL waits a day for a table's lock, and all other statements wait behind it.
const settings = "set session lock_wait_timeout = 5";

export const mysqlMoving: TransferText = {
  hasTable:
    "select 1 from information_schema.tables where table_schema = database() and table_name = 'dbq_move'",
  makeTable:
    "create table dbq_move (only_one int primary key, move_id varchar(64) not null, run varchar(64) not null, state varchar(16) not null, other text not null, refusal text not null, door int not null) character set utf8mb4",
  triggers:
    "select trigger_name from information_schema.triggers where trigger_schema = database() and left(trigger_name, 9) = 'dbq_move_'",
  // CREATE TRIGGER waits for all writers of the table: a run creates only those of its triggers that are missing.
  freeze: ({ run, phase }, triggers) => {
    const missing = (name: string, event: string, table: string, when = isFrozen): string[] => {
      const own = `dbq_move_${name}_${run.replaceAll("-", "")}`;
      return triggers.includes(own) ? [] : [refuses(own, event, table, when)];
    };
    return [
      settings,
      ...missing("insert", "insert", "dbq_tasks"),
      ...missing("update", "update", "dbq_tasks"),
      ...missing("register", "insert", "dbq_workers"),
      ...missing("schedule_insert", "insert", "dbq_schedules"),
      ...missing("schedule_update", "update", "dbq_schedules"),
      ...missing("step_insert", "insert", "dbq_steps"),
      ...missing("event_insert", "insert", "dbq_events"),
      ...missing("event_update", "update", "dbq_events"),
      ...(isSource(phase) ? missing("delete", "delete", "dbq_tasks", old) : []),
      ...(isSource(phase) ? missing("schedule_delete", "delete", "dbq_schedules", old) : []),
    ];
  },
  unfreeze: (triggers) => [settings, ...triggers.map((name) => `drop trigger if exists ${name}`)],
  // MySQL's information_schema may be a day old.
  lastId: (table) => `show create table ${table}`,
  toLastId: ([, text]) => Number(/ AUTO_INCREMENT=(\d+)[^)]*$/.exec(String(text))?.[1] ?? 1) - 1,
  followsInserts: true,
  setLastId: (table, id) => [`alter table ${table} auto_increment = ${id + 1}`],
};
