/** Inserts of more tasks than one INSERT takes: all or none are written, and none twice. */
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { type Queue, remoteTask } from "../../../src/index.ts";
import { mysqlServer, newDatabase, type OwnDatabase } from "../../support/mysql.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const server = await mysqlServer();
const task = remoteTask("f");
const many = 600;
const entries = Array.from({ length: many }, () => [task] as const);

describe.skipIf(isMissing(server))("an insert of several statements on MySQL", () => {
  let database: OwnDatabase;
  let queue: Queue;

  beforeEach(async () => {
    database = await newDatabase();
    onTestFinished(database.drop);
    queue = await temporaryQueue({}, database.url);
  });

  /** Refuses the insert of the task `late`, once or each time. */
  async function refuseLate(errno: number, times: number): Promise<void> {
    // An engine without transactions: it also counts what is rolled back.
    await database.client.query(`create table refused (n int) engine = myisam; insert into refused values (0);
      create trigger refuse_late before insert on dbq_tasks for each row begin
        if new.func = 'late' and (select n from refused) < ${times} then
          update refused set n = n + 1;
          signal sqlstate '45000' set mysql_errno = ${errno}, message_text = 'refused';
        end if;
      end`);
  }

  const pending = async () => (await queue.countTasks()).pending;

  it("writes nothing when one task cannot be written", async () => {
    await refuseLate(1644, 100);
    await expect(queue.enqueueTasks([...entries, [remoteTask("late")]])).rejects.toThrow("refused");
    expect(await pending()).toBe(0);
  });

  it("writes each task once when the server asks for another try", async () => {
    await refuseLate(1213, 1);
    const ids = await queue.enqueueTasks([...entries, [remoteTask("late")]]);
    expect(ids).toHaveLength(many + 1);
    expect(await pending()).toBe(many + 1);
  });
});
