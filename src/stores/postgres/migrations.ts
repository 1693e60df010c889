import { driverError } from "../../base/runtime/drizzle-internals.ts";
import type { MigrationText } from "../sql/migrations.ts";
import { migrations } from "./embedded.ts";

const insufficientPrivilege = "42501";

export const postgresMigrations = (schema: string | undefined): MigrationText => ({
  migrations,
  schema: schema === undefined ? undefined : schemaText(schema),
  hasTable: (name) => `select 1 where to_regclass('${name}') is not null`,
  historyTypes: ["integer", "bigint"],
  // Any number that is the same in each process: this one is "dbq" in ASCII. It is also the same for each schema: one
  // process may name the schema, and another one find it by its search path.
  lock: "select pg_advisory_xact_lock(6578801)",
  isDone: () => false,
  isDenied: (error) => (driverError(error) as { code?: unknown }).code === insufficientPrivilege,
  missing: /relation "(?<table>(?:[\w-]+\.)?\w+)" does not exist|column "?(?<column>\w+)"? does not exist/,
});

const schemaText = (schema: string) => ({
  exists: `select has_schema_privilege(oid, 'usage')::int from pg_namespace where nspname = '${schema}'`,
  create: `create schema "${schema}"`,
  grant: `grant usage on schema "${schema}"`,
  // Until the end of the transaction. Whatever else a name may mean, its first place is the schema.
  use: `set local search_path = "${schema}"`,
});
