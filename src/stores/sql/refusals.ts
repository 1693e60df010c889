/**
 * Outcomes that the database refuses, however often they are offered: a CHECK or a trigger of the app's, a text that has no
 * place in its encoding, a packet that is too large. Finds which of a batch they are, so that the others are settled, and
 * offers something else in their place: the same failure, short and in ASCII, else a failure with the database's reason.
 */
import { aroundRefused, isRefusal } from "../../base/runtime/around-refused.ts";
import { refusedOutcome } from "../../base/values/failure-kind.ts";
import { mapById } from "../../base/values/group-by.ts";
import { storable, toAscii } from "../../base/values/storable.ts";
import { beginning, failureOf } from "../../base/values/thrown.ts";
import { anotherTryAfter, DatabaseError, OutcomeUnknownError } from "../../errors.ts";
import type {
  AttemptRecord,
  Outcome,
  Refusal,
  SettleAndClaim,
  SettleAndClaimResult,
  TaskState,
} from "../../store.ts";
import type { TaskError } from "../../task.ts";
import type { Runner } from "./program.ts";
import type { TaskOperations } from "./tasks.ts";

type Settle = (cycle: SettleAndClaim) => Promise<SettleAndClaimResult>;
type StatesOf = (ids: readonly number[]) => Promise<TaskState[]>;

/** Characters that are kept of an error that the database has refused. */
const longest = { name: 200, message: 1_000, stack: 2_000 };

/** `settle`, which ends a task whose outcome is refused by another outcome. Costs nothing while none is. */
export function withRefusals(
  { run }: Pick<Runner, "run">,
  tasks: Pick<TaskOperations, "taskStates">,
  settle: Settle,
): Settle {
  const statesOf: StatesOf = (ids) => run(() => tasks.taskStates(ids));
  return async (cycle) => {
    const search = new Search(settle, statesOf, cycle.givesUp === true);
    try {
      const result = await settle(cycle);
      if (!result.settled.includes(false)) return result;
      const settled = await search.withDiscarded(cycle.outcomes, result);
      return search.answer({ ...result, settled });
    } catch (error) {
      if (cycle.outcomes.length === 0 || !search.isRefusal(error)) throw error;
      const settled = await search.settleApart(cycle, error);
      // The claim comes with the next cycle.
      const more = cycle.claim !== undefined;
      return search.answer({ settled, claimed: [], more, registered: true });
    }
  };
}

class Search {
  readonly #refused = new Map<Outcome, Refusal>();
  readonly #settle: Settle;
  readonly #statesOf: StatesOf;
  readonly #givesUp: boolean;
  #hasSettled = false;

  constructor(settle: Settle, statesOf: StatesOf, givesUp: boolean) {
    this.#settle = settle;
    this.#statesOf = statesOf;
    this.#givesUp = givesUp;
  }

  answer(result: SettleAndClaimResult): SettleAndClaimResult {
    return this.#refused.size === 0 ? result : { ...result, refused: this.#refused };
  }

  isRefusal(error: unknown): boolean {
    const isUnknown = () => anotherTryAfter(error) === undefined && !(error instanceof OutcomeUnknownError);
    return isRefusal(error) || (this.#givesUp && isUnknown());
  }

  /** The database may have refused the claim and not the outcomes: so the outcomes are offered without it first. */
  async settleApart({ outcomes, claim }: SettleAndClaim, error: unknown): Promise<boolean[]> {
    try {
      return await aroundRefused(outcomes, {
        act: (some) => this.#offer(some),
        isRefusal: (failure) => this.isRefusal(failure),
        onRefused: async (outcome, reason) => [await this.#settleInstead(outcome, reason)],
        failure: claim ? undefined : { error },
      });
    } catch (failure) {
      if (!this.#hasSettled) throw failure;
      throw new OutcomeUnknownError("some outcomes were settled before it", { cause: failure });
    }
  }

  async #offer(outcomes: readonly Outcome[]): Promise<boolean[]> {
    const result = await this.#settle({ outcomes, claim: undefined });
    this.#hasSettled = true;
    return await this.withDiscarded(outcomes, result);
  }

  async #settleInstead(outcome: Outcome, error: unknown): Promise<boolean> {
    for (const stored of substitutes(outcome, error)) {
      const answer = await this.#offerOnce(stored);
      if (answer === "refused") continue;
      if (answer) this.#refused.set(outcome, { error, stored });
      return answer;
    }
    this.#refused.set(outcome, { error, stored: undefined });
    return false;
  }

  async #offerOnce(outcome: Outcome): Promise<boolean | "refused"> {
    try {
      const { settled } = await this.#settle({ outcomes: [outcome], claim: undefined });
      if (settled[0] === true) return true;
      return (await this.#discarded([outcome])).size > 0 ? "refused" : false;
    } catch (error) {
      if (this.isRefusal(error)) return "refused";
      throw error;
    }
  }

  /**
   * A trigger or a rule may discard a change without an error: then the task still runs at the generation that the outcome names.
   * No outcome is taken for lost that was discarded: the task would be handed back, and run again and again.
   *
   * A server that lost its last commits gives a generation a second time: the task that this cycle has claimed is not the one that
   * the outcome ended, and what another cycle has claimed meanwhile accepts the outcome when it is offered again.
   */
  async withDiscarded(
    outcomes: readonly Outcome[],
    { settled, claimed }: Pick<SettleAndClaimResult, "settled" | "claimed">,
  ): Promise<boolean[]> {
    const begun = new Set(claimed.map(({ id }) => id));
    const missed = outcomes.filter(({ id }, i) => !settled[i] && !begun.has(id));
    if (missed.length === 0) return [...settled];
    const discarded = await this.#discarded(missed);
    const answers: boolean[] = [];
    for (const [i, outcome] of outcomes.entries())
      answers.push(discarded.has(outcome) ? await this.#settleAgain(outcome) : settled[i] === true);
    return answers;
  }

  async #settleAgain(outcome: Outcome): Promise<boolean> {
    const answer = await this.#offerOnce(outcome);
    return answer === "refused" ? await this.#settleInstead(outcome, discards()) : answer;
  }

  /** Empty when the database does not answer: the caller needs the answer to its cycle, which has committed. */
  async #discarded(missed: readonly Outcome[]): Promise<ReadonlySet<Outcome>> {
    const states = await this.#statesOf(missed.map(({ id }) => id)).catch(() => []);
    const running = mapById(states);
    return new Set(
      missed.filter(({ id, generationId }) => {
        const state = running.get(id);
        return state?.status === "running" && state.generationId === generationId;
      }),
    );
  }
}

const discards = () =>
  new DatabaseError("a trigger or a rule of the table dbq_tasks discards the change without an error");

/** What the database may accept in place of a refused outcome. Without `attempt`, dbq_attempts may be what refuses. */
function* substitutes(outcome: Outcome, error: unknown): Generator<Outcome> {
  if (isErroneous(outcome))
    yield* withAndWithoutAttempt(isReadable(outcome) ? { ...outcome, ...shortened(outcome) } : outcome);
  const { id, generationId, workerId, startedAt, func, parentId, kind } = outcome;
  const reason = error instanceof Error ? error.message : String(error);
  const message = `${refusedOutcome}${kind}), and would refuse it again: ${reason}`;
  const failure = inAscii({ name: "DatabaseError", message, code: "DBQ_DATABASE" }, "failed");
  yield* withAndWithoutAttempt({
    ...{ id, generationId, workerId, startedAt, func, parentId },
    kind: "failed",
    ...failure,
  });
}

type Erroneous = Extract<Outcome, { error: string }>;

const isErroneous = (outcome: Outcome): outcome is Erroneous =>
  outcome.kind === "failed" || outcome.kind === "retry" || outcome.kind === "cancelled";

function* withAndWithoutAttempt(outcome: Erroneous): Generator<Outcome> {
  yield outcome;
  yield { ...outcome, attempt: undefined };
}

/** An encrypted error has no message that could be shortened. */
const isReadable = ({ error }: Erroneous): boolean =>
  typeof (JSON.parse(error) as Partial<TaskError>).message === "string";

const shortened = ({ error, attempt }: Erroneous) =>
  inAscii(JSON.parse(error) as TaskError, attempt?.outcome ?? "failed");

/** The beginning of an error in ASCII, without its causes. */
function inAscii({ name, message, stack, code }: TaskError, outcome: AttemptRecord["outcome"]) {
  const of = (text: string, most: number) => beginning(toAscii(storable(text)), most);
  return failureOf(outcome, {
    name: of(name, longest.name),
    message: of(message, longest.message),
    ...(stack === undefined ? {} : { stack: of(stack, longest.stack) }),
    ...(code === undefined ? {} : { code: of(code, longest.name) }),
  });
}
