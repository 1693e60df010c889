/**
 * What the types of drizzle-orm 0.x know and those of 1.x do not: an app's database is made with its schema, which `tx` has
 * too, and a table of Postgres is no table of MySQL.
 */
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import { pgTable, text as pgText, serial } from "drizzle-orm/pg-core";
import { openQueue } from "../../../src/index.ts";
import { same } from "../equal.ts";

const pgOrders = pgTable("orders", { id: serial().primaryKey(), item: pgText().notNull() });
const schema = { pgOrders };

export async function ownSchema(pg: NodePgDatabase<typeof schema>): Promise<void> {
  const queue = await openQueue(pg);
  await queue.transaction(async (tx) => {
    const found = await tx.query.pgOrders.findFirst();
    same<typeof found, { id: number; item: string } | undefined>(true);
    same<typeof tx, Parameters<Parameters<typeof pg.transaction>[0]>[0]>(true);
    // @ts-expect-error: no such table in the schema
    tx.query.orders;
  });
  await (await openQueue("mysql://root@localhost/shop")).transaction(async (tx) => {
    // @ts-expect-error: a table of another database
    tx.insert(pgOrders);
  });
}
