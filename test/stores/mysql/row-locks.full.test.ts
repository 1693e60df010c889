/** Which rows a statement locks on MySQL: other workers pass over locked tasks, so a claim locks those that it takes only. */
import { createConnection } from "mysql2/promise";
import { expect, onTestFinished, test } from "vitest";
import { skipLockedDialect } from "../../../src/stores/mysql/dialect.ts";
import { mysqlSteps } from "../../../src/stores/mysql/steps.ts";
import { textsOf } from "../../../src/stores/sql/texts.ts";
import { newTask } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql } from "../server/stores.ts";

const server = await mysqlServer();

test.skipIf(isMissing(server))(
  "locking tasks by their ids leaves the other rows of a small table free",
  async () => {
    const database = await newDatabase();
    onTestFinished(() => database.drop());
    const store = await openedMysql(database.url);
    const inserted = await store.insert(
      Array.from({ length: 20 }, () => newTask()),
      "report",
    );
    const ids = inserted.map(({ id }) => id);
    const claim = await createConnection(database.url);
    onTestFinished(() => claim.end());
    await claim.query("set transaction isolation level read committed");
    await claim.beginTransaction();
    const wanted = [ids[4], ids[6], ids[9]];
    const { text, names } = mysqlSteps.compiler.compile(textsOf(skipLockedDialect).statements.lockThese);
    const [locked] = await claim.query(
      { sql: text, rowsAsArray: true },
      names.map(() => JSON.stringify(wanted)),
    );
    expect((locked as unknown as unknown[][]).map(([id]) => id)).toEqual(wanted);
    const [free] = await database.client.query("select id from dbq_tasks order by id for update skip locked");
    expect((free as unknown as { id: number }[]).map(({ id }) => id)).toEqual(
      ids.filter((id) => !wanted.includes(id)),
    );
    await claim.rollback();
  },
);
