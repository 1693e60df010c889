/** A server of chaos' own, to be restarted at will. */
export interface OwnServer extends AsyncDisposable {
  readonly url: string;
  /** Resolves when it answers. */
  up(): Promise<void>;
  /** `crash`: as when the machine loses its power; else it ends all connections and finishes what it does. */
  down(how: "crash" | "stop"): Promise<void>;
  /** Copies what is left of it to where it will stay. */
  save(folder: string): void;
}
