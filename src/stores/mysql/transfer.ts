/**
 * What a move needs of MySQL and MariaDB.
 *
 * DDL commits there, so whoever looks whether the move is still its own, and then makes or drops triggers, may stand still
 * in between while another run comes, and ends. Nothing depends on that: the triggers ask the mark, so those that come too
 * late refuse nobody. Each run's have names of its own, and a run drops those that it saw before it last had the mark: none
 * of a run that came after it is among them, as that one makes its triggers when the mark is its own. Nor is one on which
 * the next run relies while it fills the new database: who has made those drops them only when all is there.
 */
import { isSource } from "../../store.ts";
import type { TransferText } from "../sql/dialect.ts";

const sealed = "state in ('preparing', 'filling', 'closing', 'moved') and door = 0";
const old = "state in ('closing', 'moved')";

/**
 * The mark is locked, so that it is read as it now is: whoever writes may be in a transaction that began long before.
 * `max` gives a row in any case: without one, each insert had a warning. A message has 128 characters at most, and what is
 * declared has the database's character set, which may lack some.
 */
const refuses = (name: string, event: string, table: string, when: string): string =>
  `create trigger ${name} before ${event} on ${table} for each row begin
    declare said varchar(128) character set utf8mb4;
    select max(left(refusal, 128)) into said from dbq_move where only_one = 1 and ${when} lock in share mode;
    if said is not null then
      signal sqlstate '45000' set message_text = said;
    end if;
  end`;

// Of a lock on a table, which is waited for a day otherwise, and everybody else then waits too.
const settings = "set session lock_wait_timeout = 5";

export const mysqlMoving: TransferText = {
  hasTable:
    "select 1 from information_schema.tables where table_schema = database() and table_name = 'dbq_move'",
  makeTable:
    "create table dbq_move (only_one int primary key, move_id varchar(64) not null, run varchar(64) not null, state varchar(16) not null, other text not null, refusal text not null, door int not null) character set utf8mb4",
  triggers:
    "select trigger_name from information_schema.triggers where trigger_schema = database() and left(trigger_name, 9) = 'dbq_move_'",
  // Each CREATE waits for those who write to the table: so a run makes its own, whichever are there.
  freeze: ({ run, phase }, triggers) => {
    const missing = (name: string, event: string, table: string, when = sealed): string[] => {
      const own = `dbq_move_${name}_${run.replaceAll("-", "")}`;
      return triggers.includes(own) ? [] : [refuses(own, event, table, when)];
    };
    return [
      settings,
      ...missing("insert", "insert", "dbq_tasks"),
      ...missing("update", "update", "dbq_tasks"),
      ...missing("register", "insert", "dbq_workers"),
      ...(isSource(phase) ? missing("delete", "delete", "dbq_tasks", old) : []),
    ];
  },
  unfreeze: (triggers) => [settings, ...triggers.map((name) => `drop trigger if exists ${name}`)],
  // information_schema may be a day old on MySQL.
  lastId: (table) => `show create table ${table}`,
  toLastId: ([, text]) => Number(/ AUTO_INCREMENT=(\d+)[^)]*$/.exec(String(text))?.[1] ?? 1) - 1,
  setLastId: (table, id) => [`alter table ${table} auto_increment = ${id + 1}`],
};
