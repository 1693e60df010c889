// @ts-nocheck: the types of Jest are not installed in this repository.
/**
 * Tests of the shop under Jest, with the test kit, in a project of ES modules. `jest.config.json` has what Jest needs for TypeScript.
 *
 *     npm install --save-dev jest @swc/core @swc/jest
 *     NODE_OPTIONS=--experimental-vm-modules npx jest
 */
import { matchers, testQueue } from "dbq-ts/testing";
import { openDatabase } from "./database.ts";
import { routes } from "./routes.ts";
import { orders } from "./schema.ts";
import { askForReview, writeReceipt } from "./tasks.ts";

expect.extend(matchers);

let db;
let q;
let app;
beforeEach(async () => {
  db = openDatabase(":memory:");
  q = await testQueue({ db, now: "2026-03-30T09:00Z", context: { db }, backoff: "1m" });
  app = routes(db, q);
});
afterEach(async () => {
  await q.close();
  db.$client.close();
});

const order = (item, quantity) =>
  app.request("/orders", { method: "POST", body: JSON.stringify({ item, quantity }) });

test("an order enqueues its receipt, which the customer gets", async () => {
  expect((await order("tea", 2)).status).toBe(201);
  expect(q).toHaveEnqueued(writeReceipt, [expect.any(Number)], { maxRetries: 5, times: 1 });
  await q.drain({ rethrow: true });
  expect(await (await app.request("/orders/1/receipt")).json()).toEqual({
    receipt: "Order 1: 2 x tea. Thank you!",
  });
});

test("an order that is more than the stock enqueues nothing", async () => {
  expect((await order("cake", 3)).status).toBe(409);
  expect(q).not.toHaveEnqueued(writeReceipt);
});

test("a receipt whose order is missing is tried again, and written once it is there", async () => {
  await q.enqueueTask(writeReceipt, 7);
  const { scheduled, errors } = await q.drain();
  expect([scheduled, String(errors[0])]).toEqual([1, "Error: there is no order 7"]);
  db.insert(orders).values({ id: 7, item: "tea", quantity: 1 }).run();
  await q.advance("1m");
  expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 0 });
});

test("a receipt that is sent again each Monday comes a week later", async () => {
  db.insert(orders).values({ id: 1, item: "tea", quantity: 1 }).run();
  await q.schedule("weekly", { cron: "0 9 * * 1", timeZone: "UTC" }, writeReceipt, 1);
  await q.advance("6d", { drain: true });
  expect(q.enqueued(writeReceipt)).toEqual([]);
  await q.advance("1d", { drain: true });
  const [sent] = q.enqueued(writeReceipt);
  expect([sent?.status, sent?.finishedAt?.toISOString()]).toEqual(["completed", "2026-04-06T09:00:00.000Z"]);
});

test("a limit of one receipt a minute holds for an order of two", async () => {
  await q.setLimit({ func: "write-receipt" }, { rate: { limit: 1, per: "1m" } });
  await order("tea", 1);
  await order("tea", 2);
  expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 1 });
  await q.advance("2m");
  expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 0 });
});

test("a review is asked for two days after the delivery", async () => {
  await order("tea", 1);
  await app.request("/orders/1/delivery", { method: "POST" });
  expect(q).toHaveEnqueued(askForReview, [1], { times: 1 });
  const askedAt = () => db.select({ askedAt: orders.reviewAskedAt }).from(orders).get().askedAt;
  await q.advance("47h", { drain: true });
  expect(askedAt()).toBeNull();
  await q.advance("1h", { drain: true });
  expect(askedAt()?.getTime()).toBeGreaterThan(0);
});
