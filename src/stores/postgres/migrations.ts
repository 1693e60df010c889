import { driverError } from "../server/run.ts";
import type { MigrationText } from "../sql/migrations.ts";
import { migrations } from "./embedded.ts";

const insufficientPrivilege = "42501";

export const postgresMigrations: MigrationText = {
  migrations,
  hasTable: (name) => `select 1 where to_regclass('${name}') is not null`,
  historyTypes: ["integer", "bigint"],
  // Any number that is the same in each process: this one is "dbq" in ASCII.
  lock: "select pg_advisory_xact_lock(6578801)",
  isDone: () => false,
  isDenied: (error) => (driverError(error) as { code?: unknown }).code === insufficientPrivilege,
  missing: /relation "(?<table>\w+)" does not exist|column "?(?<column>\w+)"? does not exist/,
};
