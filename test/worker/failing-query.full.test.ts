/** As failing-query.test.ts, on MySQL or MariaDB. */
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/mysql2";
import { expect, onTestFinished, test } from "vitest";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { temporaryQueue } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";
import { chainOfFailure } from "./failing-query.ts";

const server = await mysqlServer();

test.skipIf(isMissing(server))(
  "on MySQL the error of a failed query has the database's reason as its cause",
  async () => {
    const database = await newDatabase();
    onTestFinished(() => database.drop());
    const queue = await temporaryQueue({}, database.url);
    const db = drizzle({ client: database.client });
    const errors = await chainOfFailure(queue, () => db.execute(sql`insert into orders values (${7})`));
    expect(errors).toMatchObject([
      { message: expect.stringMatching(/^Failed query: insert into orders/) },
      { name: "Error", message: `Table '${database.name}.orders' doesn't exist` },
    ]);
  },
);
