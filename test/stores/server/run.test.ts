/**
 * The runner repeats what a server did not do, without an error. It does not repeat a write that may have happened,
 * where a second one would matter, and reports an unknown outcome. It rolls back a failed transaction.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { sql } from "drizzle-orm/sql/sql";
import { describe, expect, it, onTestFinished, test, vi } from "vitest";
import { OutcomeUnknownError, QueueClosedError } from "../../../src/errors.ts";
import type { Pool, Queryable, QueryResult } from "../../../src/stores/server/pool.ts";
import {
  Execution,
  execute,
  type Failure,
  listOf,
  ServerRunner,
  type ServerSteps,
} from "../../../src/stores/server/run.ts";
import { Compiler } from "../../../src/stores/sql/compile.ts";
import type { Params } from "../../../src/stores/sql/dialect.ts";
import {
  changes,
  count,
  insertedId,
  type Program,
  rewindCursors,
  rows,
  startsNothing,
  transaction,
} from "../../../src/stores/sql/program.ts";

/** An error of a driver. */
class Broken extends Error {
  readonly code = "E_BROKEN";
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(`the server says: ${failure}`);
    this.failure = failure;
  }
}

const answer: QueryResult = { rows: [["row"]], changed: 1, insertId: 0 };
const once = { repeatable: false, waitForServer: true };

/** Records every query in order. The next query that begins like this fails, once for each failure. */
class Wire implements Pool {
  readonly name = "db.example:1";
  readonly texts: string[] = [];
  /** Whether each returned connection was spoilt. */
  readonly spoilt: boolean[] = [];
  readonly #failures: [text: string, failure: Failure][];

  constructor(...failures: [text: string, failure: Failure][]) {
    this.#failures = failures;
  }

  readonly asked: Queryable = {
    query: async (text) => {
      this.texts.push(text);
      const next = this.#failures.findIndex(([begins]) => text.startsWith(begins));
      const [failed] = next < 0 ? [] : this.#failures.splice(next, 1);
      if (failed) throw new Broken(failed[1]);
      return answer;
    },
  };

  async use<T>(fn: (asked: Queryable) => Promise<T>, spoilt: (error: unknown) => boolean): Promise<T> {
    try {
      return await fn(this.asked);
    } catch (error) {
      this.spoilt.push(spoilt(error));
      throw error;
    }
  }

  hasIdle = () => false;

  close = async () => undefined;
}

/** The ids of each batch of changes. */
const changed: unknown[][] = [];
/** The notification payloads of the inserts. */
const payloads: unknown[] = [];

const steps: ServerSteps = {
  compiler: new Compiler({ quote: '"', parameter: (i) => `$${i + 1}`, items: undefined }),
  failureOf: (error) => (error instanceof Broken ? error.failure : "permanent"),
  isOneInsert: () => true,
  id: async (_, __, ___, payload) => {
    payloads.push(payload);
    return 1;
  },
  ids: async () => [],
  changes: async (_, __, params) => {
    changed.push(params.map(({ id }) => id));
    return params.map(({ found }) => found === true);
  },
};

function runnerOn(wire: Wire) {
  const runner = new ServerRunner(wire, steps);
  const [notify, payload] = [vi.fn(), vi.fn<() => string | undefined>()];
  runner.notifier = { notify, payload };
  return { runner, notify, payload };
}

const update = () => sql.raw("update t");
const select = () => sql.raw("select t");
const change = () => count(update, {});
/** Reads back its effect from the second try on. */
const changeThenLook = (tries: number) => count(tries === 0 ? update : select, {});
const inTransaction = ["begin", "update t", "commit"];

describe("a lost connection", () => {
  it("is reported at the first failure, once until a call has succeeded", async () => {
    const messages: string[] = [];
    const listen = (message: unknown) => void messages.push((message as { message: string }).message);
    subscribe("dbq:warning", listen);
    onTestFinished(() => void unsubscribe("dbq:warning", listen));
    const { runner } = runnerOn(new Wire(["select", "lost"], ["select", "lost"], ["update", "transient"]));
    await runner.run(() => rows(select, {}));
    const outage = "db.example:1: the server says: lost (E_BROKEN); dbq tries again for up to 60 s";
    expect(messages).toEqual([outage]);
    await runner.run(() => change());
    expect(messages).toEqual([outage]);
    await runnerOn(new Wire(["select", "lost"])).runner.run(() => rows(select, {}));
    expect(messages).toEqual([outage, outage]);
  });
});

describe("a server that takes no writes", () => {
  it("is reported after a second of tries, once a minute", async () => {
    const messages: string[] = [];
    const listen = (message: unknown) => void messages.push((message as { message: string }).message);
    subscribe("dbq:warning", listen);
    onTestFinished(() => void unsubscribe("dbq:warning", listen));
    const refusals = Array.from({ length: 14 }, (): [string, Failure] => ["update", "elsewhere"]);
    const { runner } = runnerOn(new Wire(...refusals, ["update", "transient"]));
    await runner.run(() => change());
    expect(messages).toEqual([
      "db.example:1: the server says: elsewhere (E_BROKEN); dbq tries again for up to 60 s",
    ]);
    await runner.run(() => rows(select, {}));
    expect(messages).toHaveLength(1);
  });
});

describe("a transaction", () => {
  it("is rolled back when it fails, and throws the failure", async () => {
    const wire = new Wire(["update", "permanent"]);
    await expect(runnerOn(wire).runner.write(change)).rejects.toThrow(
      "db.example:1: the server says: permanent",
    );
    expect(wire.texts).toEqual(["begin", "update t", "rollback"]);
    expect(wire.spoilt).toEqual([false]);
  });

  it("throws the first failure when its rollback fails too", async () => {
    const wire = new Wire(["update", "permanent"], ["rollback", "lost"]);
    await expect(runnerOn(wire).runner.write(change)).rejects.toThrow("the server says: permanent");
  });

  it("is not opened again inside another one", async () => {
    const wire = new Wire();
    const nested = () => transaction(() => transaction(change, true), true);
    await runnerOn(wire).runner.run(nested);
    expect(wire.texts).toEqual(inTransaction);
  });
});

describe("a failed operation", () => {
  it.each<Failure>(["transient", "elsewhere", "lost"])("(%s) is repeated, without an error", async (f) => {
    const wire = new Wire(["update", f], ["begin", f], ["update", f]);
    expect(await runnerOn(wire).runner.write(change, once)).toBe(1);
    expect(wire.texts.slice(-3)).toEqual(inTransaction);
    expect(wire.texts.filter((text) => text === "commit")).toHaveLength(1);
    expect(wire.spoilt).toEqual(Array(3).fill(f !== "transient"));
  });

  it("is not repeated when it would fail again", async () => {
    const wire = new Wire(["update", "permanent"]);
    await expect(runnerOn(wire).runner.run(change)).rejects.toMatchObject({ code: "DBQ_DATABASE" });
    expect(wire.texts).toEqual(["update t"]);
  });

  it("is not repeated by a closed queue, which says that it is closed", async () => {
    const { runner } = runnerOn(new Wire(["update", "transient"]));
    runner.close();
    await expect(runner.write(change)).rejects.toBeInstanceOf(QueueClosedError);
  });

  it("is not repeated for a caller that does not wait for a server", async () => {
    const wire = new Wire(["update", "lost"]);
    const impatient = { repeatable: true, waitForServer: false };
    await expect(runnerOn(wire).runner.run(change, impatient)).rejects.toMatchObject({
      code: "DBQ_DATABASE",
    });
  });
});

describe("an operation that may have happened", () => {
  it("is not repeated when a second run would matter: a commit without an answer", async () => {
    const wire = new Wire(["commit", "lost"]);
    const { runner, notify } = runnerOn(wire);
    await expect(runner.write(change, once)).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(wire.texts.filter((text) => text === "update t")).toHaveLength(1);
    expect(notify).not.toHaveBeenCalled();
  });

  it("is not repeated when a second run would matter: a single statement without an answer", async () => {
    const wire = new Wire(["update", "lost"]);
    const unknown = runnerOn(wire).runner.run(change, once);
    await expect(unknown).rejects.toMatchObject({
      code: "DBQ_OUTCOME_UNKNOWN",
      cause: { failure: "lost" },
    });
    expect(wire.texts).toEqual(["update t"]);
  });

  it("is repeated when a second run finds nothing to do", async () => {
    const wire = new Wire(["commit", "lost"]);
    expect(await runnerOn(wire).runner.write(change)).toBe(1);
    expect(wire.texts).toEqual([...inTransaction, "rollback", ...inTransaction]);
  });

  it("has an unknown outcome when the next try is refused", async () => {
    const wire = new Wire(["commit", "lost"], ["select", "permanent"]);
    await expect(runnerOn(wire).runner.write(changeThenLook)).rejects.toMatchObject({
      code: "DBQ_OUTCOME_UNKNOWN",
      cause: { failure: "permanent" },
    });
  });

  it("has an unknown outcome when the server stays away", async () => {
    const wire = new Wire(["commit", "lost"], ["select", "lost"]);
    const now = vi.spyOn(performance, "now").mockReturnValue(60_001);
    onTestFinished(() => now.mockRestore());
    // The clock at the beginning, and after the first try.
    for (const _ of ["begin", "commit"]) now.mockReturnValueOnce(0);
    const changing = runnerOn(wire).runner.write(changeThenLook);
    await expect(changing).rejects.toMatchObject({ code: "DBQ_OUTCOME_UNKNOWN" });
    expect(wire.texts.slice(-2)).toEqual(["select t", "rollback"]);
  });

  it("fails normally when it only reads", async () => {
    const wire = new Wire(["select", "lost"], ["select", "permanent"]);
    const reading = runnerOn(wire).runner.run(() => rows(select));
    await expect(reading).rejects.toMatchObject({ code: "DBQ_DATABASE" });
  });

  it("is repeated when its commit was refused", async () => {
    const wire = new Wire(["commit", "transient"]);
    expect(await runnerOn(wire).runner.write(change, once)).toBe(1);
    expect(wire.texts.filter((text) => text === "commit")).toHaveLength(2);
  });
});

describe("other processes are notified", () => {
  it("of changes, once, after the commit", async () => {
    const wire = new Wire(["commit", "transient"]);
    const { runner, notify } = runnerOn(wire);
    notify.mockImplementation(() => expect(wire.texts.at(-1)).toBe("commit"));
    await runner.write(function* () {
      yield* change();
      yield* change();
    });
    expect(notify).toHaveBeenCalledOnce();
  });

  it("neither of reads, nor of changes that no process waits for", async () => {
    const { runner, notify } = runnerOn(new Wire());
    expect(await runner.run(() => rows(select))).toEqual([["row"]]);
    await runner.run(() => transaction(change, false));
    expect(notify).not.toHaveBeenCalled();
    await runner.run(() => transaction(change, true));
    expect(notify).toHaveBeenCalledOnce();
    await runner.run(function* () {
      yield* change();
      yield* transaction(change, false);
    });
    expect(notify).toHaveBeenCalledTimes(2);
  });

  it("that no task can start because of a change, unless another change of the operation says otherwise", async () => {
    const { runner, notify } = runnerOn(new Wire());
    const quietly = function* (...more: (() => Program<unknown>)[]): Program<void> {
      yield* change();
      yield* startsNothing();
      for (const each of more) yield* each();
    };
    for (const more of [[], [change], [rewindCursors]]) await runner.write(() => quietly(...more));
    expect(notify.mock.calls).toEqual([["quiet"], ["work"], ["rewind"]]);
  });

  it("by an insert itself, unless a notification was just sent or it is part of a transaction", async () => {
    const { runner, notify, payload } = runnerOn(new Wire());
    const insert = () => insertedId(update, {});
    payloads.length = 0;
    payload.mockReturnValueOnce("mine");
    await runner.run(insert);
    expect(notify).not.toHaveBeenCalled();
    await runner.run(insert);
    expect(notify).toHaveBeenCalledOnce();
    payload.mockReturnValue("mine");
    await runner.write(insert);
    expect(notify).toHaveBeenCalledTimes(2);
    expect(payloads).toEqual(["mine", undefined, undefined]);
  });
});

test("two changes of one row are separate statements, in their order", async () => {
  const items = [
    { id: 1, found: true },
    { id: 2, found: true },
    { id: 1, found: false },
    { id: 1, found: true },
    { id: 3, found: false },
  ] satisfies Params[];
  changed.length = 0;
  const op: Program<boolean[]> = changes(update, items);
  expect(await new Execution(new Wire().asked, steps).run(op)).toEqual(items.map(({ found }) => found));
  expect(changed).toEqual([[1, 2, 3], [1], [1]]);
});

test("invalid characters are replaced in texts that are sent, alone or in a list, which has only what the change reads", async () => {
  const sent: unknown[] = [];
  const asked: Queryable = {
    query: async (_, params) => {
      sent.push(...params);
      return answer;
    },
  };
  const params = { text: "a\0b\ud800c\udc00d😀", size: 1 };
  await execute(asked, { text: "", names: ["text", "size"] }, params);
  expect(sent).toEqual(["a\ufffdb\ufffdc\ufffdd😀", 1]);
  const change = { text: "", names: ["items"], columns: ["text", "size"] };
  expect(JSON.parse(listOf(change, [{ ...params, other: 2 }]))).toEqual([
    { text: "a\ufffdb\ufffdc\ufffdd😀", size: 1 },
  ]);
});
