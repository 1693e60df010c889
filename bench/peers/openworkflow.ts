/** OpenWorkflow, on SQLite by the driver that is built into node, or on Postgres by its own pool of ten connections. */
import type { OpenWorkflow } from "openworkflow";
import { BackendPostgres } from "openworkflow/postgres";
import { BackendSqlite } from "openworkflow/sqlite";
import type { Synchronous } from "../benchmark.ts";

export type Backend = ConstructorParameters<typeof OpenWorkflow>[0]["backend"];

/**
 * Opens its database. The backend sets WAL, leaves SQLite's default for `synchronous`, which is `full`, and has no option for
 * it. So it is set here, as for plainjob.
 */
export function openSqlite(path: string, synchronous: Synchronous): Backend {
  const backend = BackendSqlite.connect(path);
  const { db } = backend as unknown as { db: { exec(text: string): void } };
  db.exec(`pragma synchronous = ${synchronous}`);
  return backend;
}

export function openPostgres(url: string): Promise<Backend> {
  return BackendPostgres.connect(url);
}

/** How many steps of this run are recorded as completed. The page holds more steps than a run may have. */
export async function completedSteps(backend: Backend, workflowRunId: string): Promise<number> {
  const limit = 2_000;
  const { data } = await backend.listStepAttempts({ workflowRunId, limit });
  return data.filter(({ status }) => status === "completed").length;
}
