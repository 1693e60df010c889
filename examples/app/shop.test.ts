/**
 * Tests of the shop, with the test kit: its routes and tasks on a database in memory, by a clock that the test moves.
 *
 *     npx vitest run --config examples/vitest.config.ts
 */
import { testQueue } from "dbq-ts/testing";
import "dbq-ts/testing/vitest";
import { expect, onTestFinished, test } from "vitest";
import { openDatabase } from "./database.ts";
import { routes } from "./routes.ts";
import { orders } from "./schema.ts";
import { askForReview, writeReceipt } from "./tasks.ts";

async function openShop() {
  const db = openDatabase(":memory:");
  const q = await testQueue({ db, now: "2026-03-30T09:00Z", context: { db }, backoff: "1m" });
  onTestFinished(async () => {
    await q.close();
    db.$client.close();
  });
  const app = routes(db, q);
  const order = (item: string, quantity: number) =>
    app.request("/orders", { method: "POST", body: JSON.stringify({ item, quantity }) });
  return { db, q, app, order };
}

test("an order enqueues its receipt, which the customer gets", async () => {
  const { q, app, order } = await openShop();
  expect((await order("tea", 2)).status).toBe(201);
  expect(q).toHaveEnqueued(writeReceipt, [1], { maxRetries: 5, times: 1 });
  await q.drain({ rethrow: true });
  expect(await (await app.request("/orders/1/receipt")).json()).toEqual({
    receipt: "Order 1: 2 x tea. Thank you!",
  });
});

test("an order that is more than the stock enqueues nothing", async () => {
  const { q, order } = await openShop();
  expect((await order("cake", 3)).status).toBe(409);
  expect(q).not.toHaveEnqueued(writeReceipt);
});

test("a receipt whose order is missing is tried again, and written once it is there", async () => {
  const { db, q } = await openShop();
  await q.enqueueTask(writeReceipt, 7);
  const { scheduled, errors } = await q.drain();
  expect([scheduled, String(errors[0])]).toEqual([1, "Error: there is no order 7"]);
  db.insert(orders).values({ id: 7, item: "tea", quantity: 1 }).run();
  await q.advance("1m");
  expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 0 });
});

test("a receipt is written although the process dies as its task begins", async () => {
  const { q, app, order } = await openShop();
  await order("tea", 1);
  const [task] = q.enqueued(writeReceipt);
  // The function has no `await`: its transaction has completed the task before the worker died.
  await q.crash(task?.id ?? 0);
  await q.advance("15s");
  await q.drain();
  expect(await (await app.request("/orders/1")).json()).toMatchObject({
    receipt: "Order 1: 1 x tea. Thank you!",
    task: { status: "completed" },
  });
});

test("a receipt that is sent again each Monday comes a week later", async () => {
  const { db, q } = await openShop();
  db.insert(orders).values({ id: 1, item: "tea", quantity: 1 }).run();
  await q.schedule("weekly", { cron: "0 9 * * 1", timeZone: "UTC" }, writeReceipt, 1);
  await q.advance("6d", { drain: true });
  expect(q.enqueued(writeReceipt)).toEqual([]);
  await q.advance("1d", { drain: true });
  expect(q.enqueued(writeReceipt)).toMatchObject([
    { status: "completed", finishedAt: new Date("2026-04-06T09:00Z") },
  ]);
});

test("a limit of one receipt a minute holds for an order of two", async () => {
  const { q, order } = await openShop();
  await q.setLimit({ func: "write-receipt" }, { rate: { limit: 1, per: "1m" } });
  await order("tea", 1);
  await order("tea", 2);
  expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 1 });
  await q.advance("2m");
  expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 0 });
});

test("a review is asked for two days after the delivery, once", async () => {
  const { db, q, app, order } = await openShop();
  await order("tea", 1);
  for (let call = 0; call < 2; call += 1)
    expect((await app.request("/orders/1/delivery", { method: "POST" })).status).toBe(202);
  expect(q).toHaveEnqueued(askForReview, [1], { times: 1 });
  const askedAt = () => db.select({ askedAt: orders.reviewAskedAt }).from(orders).get()?.askedAt;
  await q.drain({ rethrow: true });
  await q.advance("47h", { drain: true });
  expect(askedAt()).toBeNull();
  await q.advance("1h", { drain: true });
  expect(askedAt()).toBeInstanceOf(Date);
});
