/** A feature's side in a worker, or in a runner of the test kit: it adds to each claim, and hears each answer. */
import type { WithParts } from "../base/tasks/part.ts";
import type { TaskRecord } from "../task.ts";

/** A claim that is about to be made. */
export interface NextClaim {
  funcs: readonly string[];
  /** The tasks that end with it. A policy that does not ask for them costs no list of them. */
  ended(): readonly TaskRecord[];
  /** How many of the claimed tasks may start later; undefined: the worker waits for none. */
  mayStartLater: number | undefined;
}

/** `parts`: for the database. */
export interface Asked extends WithParts {
  /** No other claim of the worker is to be made beside it. */
  alone?: boolean;
}

/** What the answer to a claim means for its worker. */
export interface Heard {
  /** Of claimed tasks that are to start later, in how many milliseconds: until then each keeps a slot. */
  startsIn?: ReadonlyMap<number, number> | undefined;
  /** Milliseconds after which a task may start that could not now. @default no time lets one start */
  again?: number | undefined;
  /** The end of a task may let another one start. */
  endsLetStart?: boolean | undefined;
}

/** From one start of the worker to its stop. */
export interface ClaimPolicy {
  /** Makes the database ready for the worker's functions: before its first claim. @throws DatabaseError */
  begin(): Promise<void>;
  /** The names of the functions whose tasks may be claimed now. */
  funcs(): readonly string[];
  /** Called before each claim. */
  ask(claim: NextClaim): Asked;
  /** Called with each answer, before its tasks start. */
  hear(answer: WithParts): Heard;
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

const nothing = {};

/** Where no feature has another: each function is claimed, and nothing is added to a claim. */
export const claimsOfAll: OpenClaims = ({ names }) => ({
  begin: () => Promise.resolve(),
  funcs: names,
  ask: () => nothing,
  hear: () => nothing,
  throttle: () => Promise.resolve(),
});
