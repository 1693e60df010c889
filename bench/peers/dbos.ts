/** DBOS Transact: one instance in a process, which keeps its state in the database of this URL. */
import { DBOS } from "@dbos-inc/dbos-sdk";

/** Its defaults, such as a pool of ten connections. Its logger would write each launch to the console. */
export async function launchDbos(url: string): Promise<void> {
  DBOS.setConfig({ name: "dbq-bench", systemDatabaseUrl: url, logLevel: "error" });
  await DBOS.launch();
}

/** All steps whose output is stored. */
export const storedOutputs = "select count(*) from dbos.operation_outputs where output is not null";
