/** What a move needs of MySQL and MariaDB. */
import type { MovingText } from "./dialect.ts";

/** A message has 128 characters at most. */
const refuses = (name: string, event: string, table: string): string =>
  `create trigger dbq_move_${name} before ${event} on ${table} for each row begin
    declare said varchar(128);
    if coalesce((select door from dbq_move limit 1), 0) = 0 then
      set said = (select left(refusal, 128) from dbq_move limit 1);
      signal sqlstate '45000' set message_text = said;
    end if;
  end`;

const unseal = [
  // Of a lock on a table, which is waited for a day otherwise, and everybody else then waits too.
  "set session lock_wait_timeout = 5",
  ...["insert", "update", "register"].map((name) => `drop trigger if exists dbq_move_${name}`),
];

export const mysqlMoving: MovingText = {
  isMarked:
    "select 1 from information_schema.tables where table_schema = database() and table_name = 'dbq_move'",
  makeMark:
    "create table dbq_move (only_one int primary key, move_id varchar(64) not null, run varchar(64) not null, state varchar(16) not null, other text not null, refusal text not null, door int not null) character set utf8mb4",
  seal: [
    ...unseal,
    refuses("insert", "insert", "dbq_tasks"),
    refuses("update", "update", "dbq_tasks"),
    refuses("register", "insert", "dbq_workers"),
  ],
  unseal,
  // information_schema may be a day old on MySQL.
  lastId: (table) => `show create table ${table}`,
  toLastId: ([, text]) => Number(/ AUTO_INCREMENT=(\d+)[^)]*$/.exec(String(text))?.[1] ?? 1) - 1,
  setLastId: (table, id) => [`alter table ${table} auto_increment = ${id + 1}`],
};
