/** What a database is made of, in one short text: two that differ in anything differ in it. */
import { createHash } from "node:crypto";
import { open } from "./audit.ts";

export interface Schema {
  /** A digest of all that `sqlite_master` says. */
  digest: string;
  /** The migrations that were applied, in their order. */
  migrations: string[];
}

export function schemaOf(database: string): Schema {
  using raw = open(database);
  const rows = raw.client
    .prepare("select type, name, tbl_name, sql from sqlite_master order by type, name")
    .all();
  return {
    digest: createHash("sha256").update(JSON.stringify(rows)).digest("hex"),
    migrations: raw.client.prepare<[], string>("select hash from dbq_migrations order by id").pluck().all(),
  };
}
