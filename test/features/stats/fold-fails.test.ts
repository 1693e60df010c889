/** A fold that ends between two of its statements, as when its process is killed. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { temporaryQueue } from "../../support/queue.ts";

test.each(["insert", "delete"])("a fold that ends at an %s loses and doubles no count", async (statement) => {
  const queue = await temporaryQueue();
  const { stats } = internalsOf(queue).store;
  const run = (text: string) =>
    queue.transaction((tx) => (tx as never as { run(sql: string): void }).run(text));
  const counted = { count: 3, waitBuckets: "[]", runBuckets: "[]" };
  const rows = ["a", "b"].map((func) => ({
    ...{ queueName: "default", func, outcome: "completed", total: counted, fresh: counted },
  }));
  const tenMinutesAgo = Math.floor(Date.now() / 60_000 - 10) * 60_000;
  for (const worker of ["w1", "w2"]) await stats.write(worker, tenMinutesAgo, rows);
  const count = async () => (await stats.totals()).reduce((sum, row) => sum + row.count, 0);
  expect(await count()).toBe(12);
  // At the second row: one is written or deleted already.
  await run(`create table seen (id integer)`);
  await run(`create trigger dies before ${statement} on dbq_stats begin
    insert into seen values (1); select raise(fail, 'killed') where (select count(*) from seen) > 1; end`);
  await expect(stats.fold()).rejects.toThrow();
  expect(await count()).toBe(12);
  await run("drop trigger dies");
  while (await stats.fold());
  expect(await count()).toBe(12);
  expect((await stats.read({ from: tenMinutesAgo, to: Date.now() })).map((row) => row.count)).toEqual([6, 6]);
});
