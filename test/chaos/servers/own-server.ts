import { join } from "node:path";
import type { Figure, Trial } from "../scenario.ts";

/** A server of the chaos tests, to be restarted at will. */
export interface OwnServer extends AsyncDisposable {
  readonly url: string;
  /** Resolves when it answers. */
  up(): Promise<void>;
  /** `crash`: as in a power cut. `stop`: it ends all connections and finishes its work. */
  down(how: "crash" | "stop"): Promise<void>;
  /** Copies its files to a folder that is kept. */
  save(folder: string): void;
}

/** Runs a trial on a server or a cluster of its own, and ends that. When the trial fails, its logs are kept beside the trial's files. */
export async function onOwnServer<S extends AsyncDisposable & Pick<OwnServer, "save">>(
  start: () => Promise<S>,
  trial: Trial,
  run: (server: S, trial: Trial) => Promise<Figure[]>,
): Promise<Figure[]> {
  await using server = await start();
  try {
    return await run(server, trial);
  } catch (error) {
    server.save(join(trial.harness.folder, "saved"));
    throw error;
  }
}
