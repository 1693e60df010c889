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
