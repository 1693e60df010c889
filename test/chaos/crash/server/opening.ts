/** The operations that open a queue on a server, with all that this creates in an empty database. */
import { mysqlMigrations } from "../../../../src/stores/mysql/migrations.ts";
import { opens } from "../reopening.ts";
import { isOfTheChecker } from "../state.ts";
import type { ServerOperation } from "./operation.ts";

const { migrations } = mysqlMigrations;

const newTables = migrations
  .flatMap(({ sql }) => sql)
  .flatMap((statement) => /^\s*create table `?(\w+)/i.exec(statement)?.[1] ?? [])
  .filter((table) => !isOfTheChecker(table));

/**
 * The table of the migrations, a row of it for each, and each table that they create and that a state shows. A column of no
 * rows is not seen.
 */
const changes = 1 + migrations.length + newTables.length;

export const opening: readonly ServerOperation[] = [
  { name: "open an empty database", commits: 1, empty: true, only: "postgres", act: opens },
  // MySQL commits each table by itself: the next process that opens the database continues.
  {
    name: "open an empty database, table by table",
    commits: changes,
    empty: true,
    only: "mysql",
    act: opens,
  },
];
