/** How MySQL and MariaDB find what a look at a queue shows: by an index alone, and without sorting the tasks. */
import type { SQL } from "drizzle-orm";
import { MySqlDialect } from "drizzle-orm/mysql-core";
import type { RowDataPacket } from "mysql2/promise";
import { describe, expect, onTestFinished, test } from "vitest";
import { CauseOperations } from "../../../src/features/causes/sql/causes.ts";
import { FailureOperations } from "../../../src/features/failures/sql.ts";
import { limitCounts } from "../../../src/features/limits/sql/counts.ts";
import { skipLockedDialect } from "../../../src/stores/mysql/dialect.ts";
import type { Row } from "../../../src/stores/sql/dialect.ts";
import type { Program, Step } from "../../../src/stores/sql/program.ts";
import { textsOf } from "../../../src/stores/sql/texts.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql } from "../server/stores.ts";

/** Three kinds of failures, two schedules, and a queue with a backlog, beside tasks that have completed. */
const filling = [
  "insert into dbq_tasks (func, status, finished_at) select 'f', 'completed', now() from seq",
  "insert into dbq_tasks (func, status, finished_at, failure) select 'f', 'failed', now(), concat('kind', n % 3) from seq",
  "insert into dbq_tasks (func, status, schedule_name, slot) select 'f', if(n % 100, 'completed', 'pending'), concat('s', n % 2), now() + interval n second from seq",
  "insert into dbq_tasks (func, queue_name) select concat('f', n % 20), 'mail' from seq",
];

/** The statement of the last step of an operation, whose steps before it get these answers. */
function statementOf(program: Program<unknown>, ...answers: Row[][]): SQL {
  let { value: step } = program.next();
  for (const answer of answers) step = program.next(answer).value;
  const { query, params } = step as Extract<Step, { want: "rows" }>;
  return typeof query === "function" ? query(params) : (query as unknown as SQL);
}

describe.skipIf(isMissing(await mysqlServer()))("looks on MySQL", () => {
  test("schedules, kinds of failures and the tasks of a queue are counted by an index alone, without a sort", async () => {
    const { url, client, drop } = await newDatabase();
    onTestFinished(drop);
    await openedMysql(url);
    // As dbq's own connections: the collation of its parameters is another one than that of the columns.
    await client.query("set names utf8mb4");
    await client.query("create table seq (n int primary key)");
    await client.query(
      "insert into seq with recursive s (n) as (select 1 union all select n + 1 from s where n < 1000) select n from s",
    );
    for (const text of filling)
      for (let i = 0; i < 2; i += 1)
        await client.query(text.replace("now() + ", `now() + interval ${i} day + `));
    await client.query("analyze table dbq_tasks");
    const texts = textsOf(skipLockedDialect);
    const planOf = async (statement: SQL) => {
      const { sql, params } = new MySqlDialect().sqlToQuery(statement);
      const [rows] = await client.query<RowDataPacket[]>(`explain ${sql}`, params);
      return rows.filter(({ table }) => table === "dbq_tasks").map(({ key, Extra }) => [key, Extra]);
    };
    const byIndex = (key: string, extra: RegExp) => [[key, expect.stringMatching(extra)]];
    const alone = /^(?!.*(filesort|temporary)).*Using index/;
    expect(await planOf(statementOf(new CauseOperations(texts).piles(3, 10_000)))).toEqual(
      byIndex("dbq_tasks_of_schedule", alone),
    );
    const tooMany = [[2]] as unknown as Row[];
    expect(await planOf(statementOf(new FailureOperations(texts).open(undefined, 10, 1), tooMany))).toEqual(
      byIndex("dbq_tasks_failure", /Using index for group-by/),
    );
    expect(await planOf(limitCounts(skipLockedDialect).queue.waiting({ name: "mail" }))).toEqual(
      byIndex("dbq_tasks_claim", alone),
    );
  });
});
