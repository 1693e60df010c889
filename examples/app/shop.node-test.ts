/**
 * Tests of the shop under Node's own runner, with the test kit. `shop.test.ts` has the same for vitest, with more about each.
 *
 *     TSX_TSCONFIG_PATH=examples/tsconfig.json node --import tsx --test examples/app/shop.node-test.ts
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { assertEnqueued, testQueue } from "dbq-ts/testing";
import { openDatabase } from "./database.ts";
import { routes } from "./routes.ts";
import { orders } from "./schema.ts";
import { askForReview, writeReceipt } from "./tasks.ts";

async function openShop(t: TestContext) {
  const db = openDatabase(":memory:");
  const q = await testQueue({ db, now: "2026-03-30T09:00Z", context: { db }, backoff: "1m" });
  t.after(async () => {
    await q.close();
    db.$client.close();
  });
  const app = routes(db, q);
  const order = (item: string, quantity: number) =>
    app.request("/orders", { method: "POST", body: JSON.stringify({ item, quantity }) });
  const get = async (path: string) => (await app.request(path)).json();
  return { db, q, app, order, get };
}

test("an order enqueues its receipt, which the customer gets", async (t) => {
  const { q, order, get } = await openShop(t);
  assert.equal((await order("tea", 2)).status, 201);
  assertEnqueued(q, writeReceipt, [1], { maxRetries: 5, times: 1 });
  await q.drain({ rethrow: true });
  assert.deepEqual(await get("/orders/1/receipt"), { receipt: "Order 1: 2 x tea. Thank you!" });
});

test("an order that is more than the stock enqueues nothing", async (t) => {
  const { q, order } = await openShop(t);
  assert.equal((await order("cake", 3)).status, 409);
  assertEnqueued(q, writeReceipt, undefined, { times: 0 });
});

test("a receipt whose order is missing is tried again, and written once it is there", async (t) => {
  const { db, q } = await openShop(t);
  await q.enqueueTask(writeReceipt, 7);
  const { scheduled, errors } = await q.drain();
  assert.deepEqual([scheduled, String(errors[0])], [1, "Error: there is no order 7"]);
  db.insert(orders).values({ id: 7, item: "tea", quantity: 1 }).run();
  await q.advance("1m");
  assert.equal((await q.drain()).completed, 1);
});

test("a receipt that is sent again each Monday comes a week later", async (t) => {
  const { db, q } = await openShop(t);
  db.insert(orders).values({ id: 1, item: "tea", quantity: 1 }).run();
  await q.schedule("weekly", { cron: "0 9 * * 1", timeZone: "UTC" }, writeReceipt, 1);
  await q.advance("6d", { drain: true });
  assert.deepEqual(q.enqueued(writeReceipt), []);
  await q.advance("1d", { drain: true });
  const [sent] = q.enqueued(writeReceipt);
  assert.deepEqual([sent?.status, sent?.finishedAt], ["completed", new Date("2026-04-06T09:00Z")]);
});

test("a limit of one receipt a minute holds for an order of two", async (t) => {
  const { q, order } = await openShop(t);
  await q.setLimit({ func: "write-receipt" }, { rate: { limit: 1, per: "1m" } });
  await order("tea", 1);
  await order("tea", 2);
  const first = await q.drain();
  assert.deepEqual([first.completed, first.scheduled], [1, 1]);
  await q.advance("2m");
  const second = await q.drain();
  assert.deepEqual([second.completed, second.scheduled], [1, 0]);
});

test("a review is asked for two days after the delivery", async (t) => {
  const { db, q, app, order } = await openShop(t);
  await order("tea", 1);
  await app.request("/orders/1/delivery", { method: "POST" });
  assertEnqueued(q, askForReview, [1], { times: 1 });
  const askedAt = () => db.select({ askedAt: orders.reviewAskedAt }).from(orders).get()?.askedAt;
  await q.advance("47h", { drain: true });
  assert.equal(askedAt(), null);
  await q.advance("1h", { drain: true });
  assert.ok(askedAt() instanceof Date);
});
