/** What a feature says about the claims of one worker, or of one runner of the test kit: which functions, and how they share. */
import type { Sharing } from "../store.ts";
import type { TaskRecord } from "../task.ts";

/** From one start of the worker to its stop. */
export interface ClaimPolicy {
  /** Makes the database ready for the worker's functions: before its first claim. @throws DatabaseError */
  begin(): Promise<void>;
  /** The names of the functions whose tasks may be claimed now. */
  funcs(): readonly string[];
  /** Of these functions, how those share that have groups or shared names. */
  sharing(funcs: readonly string[]): ReadonlyMap<string, Sharing> | undefined;
  /**
   * A task has asked that no other of its group, else of its function, starts for so many milliseconds. @throws DatabaseError
   */
  throttle(record: ThrottledTask, delay: number): Promise<void>;
}

export type ThrottledTask = Pick<TaskRecord, "func" | "groupKey">;

/** What a policy needs of its worker. */
export interface ClaimHost {
  /** The names of the worker's functions, as of now. */
  names(): readonly string[];
  /** Functions can be claimed that could not before. */
  onReady(): void;
  report(error: unknown, where: string): void;
}

/** Opens the policy for one start of a worker. */
export type OpenClaims = (host: ClaimHost) => ClaimPolicy;

/** Where no feature has another: each function is claimed, and none has to wait for another. */
export const claimsOfAll: OpenClaims = ({ names }) => ({
  begin: () => Promise.resolve(),
  funcs: names,
  sharing: () => undefined,
  throttle: () => Promise.resolve(),
});
