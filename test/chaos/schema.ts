/** Describes a database's schema in a short text. Two schemas that differ in anything give different texts. */
import { createHash } from "node:crypto";
import { backendOf, openRaw } from "./backends/backend.ts";

export interface Schema {
  /** A digest of everything that the database reports about its tables and indexes. */
  digest: string;
  /** The applied migrations, in order. */
  migrations: string[];
}

export async function schemaOf(database: string): Promise<Schema> {
  await using raw = await openRaw(database);
  const rows: unknown[] = [];
  for (const query of backendOf(database).schema) rows.push(await raw.all(query));
  const migrations = await raw.all<{ hash: string }>("select hash from dbq_migrations order by id");
  return {
    digest: createHash("sha256").update(JSON.stringify(rows)).digest("hex"),
    migrations: migrations.map(({ hash }) => hash),
  };
}
