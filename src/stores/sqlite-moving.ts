/** What a move needs of SQLite. */
import type { MovingText } from "./dialect.ts";

const refuses = (name: string, event: string, table: string): string =>
  `create trigger if not exists ${name} before ${event} on ${table}
    when coalesce((select door from dbq_move), 0) = 0
    begin select raise(abort, (select refusal from dbq_move)); end`;

export const sqliteMoving: MovingText = {
  isMarked: "select 1 from sqlite_master where type = 'table' and name = 'dbq_move'",
  makeMark:
    "create table dbq_move (only_one integer primary key, move_id text not null, run text not null, state text not null, other text not null, refusal text not null, door integer not null)",
  seal: [
    refuses("dbq_move_insert", "insert", "dbq_tasks"),
    refuses("dbq_move_update", "update", "dbq_tasks"),
    refuses("dbq_move_register", "insert", "dbq_workers"),
  ],
  unseal: ["insert", "update", "register"].map((name) => `drop trigger if exists dbq_move_${name}`),
  lastId: (table) => `select seq from sqlite_sequence where name = '${table}'`,
  toLastId: ([seq]) => Number(seq),
  setLastId: (table, id) => [
    `insert into sqlite_sequence (name, seq) select '${table}', 0
      where not exists (select 1 from sqlite_sequence where name = '${table}')`,
    `update sqlite_sequence set seq = ${id} where name = '${table}'`,
  ],
};
