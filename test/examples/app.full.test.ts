import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/queue.ts";
import { type Program, program } from "./program.ts";

const file = fileURLToPath(new URL("../../examples/app/main.ts", import.meta.url));
const tsconfig = fileURLToPath(new URL("../../examples/tsconfig.json", import.meta.url));

interface Shop extends Program {
  get(path: string): Promise<{ status: number; body: unknown }>;
  order(item: string, quantity: unknown): Promise<{ status: number; body: unknown }>;
}

async function openShop(folder: string): Promise<Shop> {
  const shop = program(file, { cwd: folder, tsconfig, env: { PORT: "0", SHOP_DB: "shop.db" } });
  const [, url] = await shop.printed(/listening on (\S+)/);
  const ask = async (path: string, init?: RequestInit) => {
    const response = await fetch(`${url}${path}`, init);
    const text = await response.text();
    return { status: response.status, body: text.startsWith("{") ? JSON.parse(text) : text };
  };
  const order = (item: string, quantity: unknown) =>
    ask("/orders", { method: "POST", body: JSON.stringify({ item, quantity }) });
  return { ...shop, get: (path) => ask(path), order };
}

/** Reads the file on a connection of its own. */
function rowsOf(folder: string, query: string): unknown[] {
  const client = new Database(join(folder, "shop.db"), { readonly: true });
  try {
    return client.prepare(query).all();
  } finally {
    client.close();
  }
}

test("a task writes the receipt of an order, and a request awaits it", async () => {
  const shop = await openShop(temporaryFolder());
  expect(await shop.order("tea", 3)).toEqual({
    status: 201,
    body: { id: 1, item: "tea", quantity: 3, taskId: 1, receipt: null, reviewAskedAt: null },
  });
  const receipt = "Order 1: 3 x tea. Thank you!";
  expect(await shop.get("/orders/1/receipt")).toEqual({ status: 200, body: { receipt } });
  expect(await shop.get("/orders/1")).toMatchObject({
    status: 200,
    body: { receipt, task: { id: 1, status: "completed" } },
  });
});

test("a failed order leaves neither an order nor a task", async () => {
  const folder = temporaryFolder();
  const shop = await openShop(folder);
  expect(await shop.order("cake", 3)).toMatchObject({ status: 409 });
  expect(await shop.order("gold", 1)).toMatchObject({ status: 409 });
  expect(rowsOf(folder, "select * from orders")).toEqual([]);
  expect(rowsOf(folder, "select * from dbq_tasks")).toEqual([]);
  expect(rowsOf(folder, "select left from stock where item = 'cake'")).toEqual([{ left: 2 }]);
  // The shop still takes orders.
  expect(await shop.order("cake", 2)).toMatchObject({ status: 201 });
  expect(await shop.get("/orders/1/receipt")).toMatchObject({ status: 200 });
});

test("a malformed order is answered with 400, an unknown one with 404", async () => {
  const shop = await openShop(temporaryFolder());
  for (const quantity of [0, -1, 1.5, "2", null])
    expect(await shop.order("tea", quantity)).toMatchObject({ status: 400 });
  expect(await shop.get("/orders/7")).toMatchObject({ status: 404 });
  expect(await shop.get("/orders/7/receipt")).toMatchObject({ status: 404 });
});

// Invariant: once the app has answered 201, the receipt of the order is written, even if the process is killed.
test("an acknowledged order gets its receipt after a SIGKILL", async () => {
  const folder = temporaryFolder();
  const first = await openShop(folder);
  const placed = await Promise.all(Array.from({ length: 10 }, () => first.order("tea", 1)));
  first.process.kill("SIGKILL");
  expect(placed.map(({ status }) => status)).toEqual(new Array(10).fill(201));
  expect((await first.ended).signal).toBe("SIGKILL");

  const second = await openShop(folder);
  for (let id = 1; id <= 10; id += 1) {
    const receipt = `Order ${id}: 1 x tea. Thank you!`;
    expect(await second.get(`/orders/${id}/receipt`)).toEqual({ status: 200, body: { receipt } });
  }
  expect(rowsOf(folder, "select count(*) as tasks, status from dbq_tasks group by status")).toEqual([
    { tasks: 10, status: "completed" },
  ]);
});

test("SIGTERM stops the app: no task is running, and its worker is unregistered", async () => {
  const folder = temporaryFolder();
  const shop = await openShop(folder);
  expect(await shop.order("tea", 1)).toMatchObject({ status: 201 });
  shop.process.kill("SIGTERM");
  expect(await shop.ended).toEqual({ code: 0, signal: null });
  expect(shop.output()).toContain("stopped");
  expect(rowsOf(folder, "select * from dbq_workers")).toEqual([]);
  expect(rowsOf(folder, "select * from dbq_tasks where status = 'running'")).toEqual([]);
});
