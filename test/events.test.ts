/** What cannot be told to a caller reaches whoever listens, or is a process warning; and never hurts who tells it. */
import { tracingChannel } from "node:diagnostics_channel";
import { once } from "node:events";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { callTraced, errorChannel, guarded, report, type Traced } from "../src/events.ts";
import { deferred } from "./support/queue.ts";
import { raise, turns } from "./worker/setup.ts";

/** What is published on the error channel until the test ends. */
function listening(): unknown[] {
  const messages: unknown[] = [];
  const listener = (message: unknown) => void messages.push(message);
  errorChannel.subscribe(listener);
  onTestFinished(() => void errorChannel.unsubscribe(listener));
  return messages;
}

const boom = () => raise(new Error("boom"));

describe("report", () => {
  it("publishes the value itself where somebody listens, and warns of nothing", () => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
    onTestFinished(() => warned.mockRestore());
    const messages = listening();
    const error = { any: "thing" };
    report(error, "a hook");
    expect(messages).toEqual([{ error, where: "a hook" }]);
    expect(messages[0]).toHaveProperty("error", error);
    expect(warned).not.toHaveBeenCalled();
  });

  it.each<[what: string, error: unknown, says: string]>([
    ["an error", new RangeError("too wide"), "a hook: RangeError: too wide"],
    ["text", "just text", "a hook: just text"],
    ["null", null, "a hook: null"],
    ["what throws when it is shown", { toString: boom }, "a hook: a value that cannot be shown"],
    ["a proxy that throws", new Proxy({}, { getPrototypeOf: boom, get: boom }), "a hook: a value that"],
    [
      "an error whose message throws",
      Object.defineProperty(new Error(), "message", { get: boom }),
      "a hook: a",
    ],
    ["an error whose name is a symbol", Object.assign(new Error(), { name: Symbol("x") }), "a hook: a value"],
    ["an error of 5 MB", new Error("x".repeat(5_000_000)), "a hook: Error: xxx"],
    ["5 MB", "x".repeat(5_000_000), "a hook: xxx"],
  ])("warns of %s where nobody listens, briefly", async (_, error, says) => {
    const warning = once(process, "warning");
    report(error, "a hook");
    const [{ name, message }] = (await warning) as [Error];
    expect(name).toBe("DbqWarning");
    expect(message.startsWith(says)).toBe(true);
    expect(message.length).toBeLessThan(1_100);
  });
});

describe("guarded", () => {
  it("tells what a listener throws, at once or later, and nothing else", async () => {
    const messages = listening();
    guarded("a listener", () => 1);
    guarded("a listener", async () => 1);
    guarded("a listener", boom);
    expect(messages).toEqual([{ error: new Error("boom"), where: "a listener" }]);
    guarded("a later one", async () => boom());
    await vi.waitFor(() => expect(messages).toHaveLength(2));
    expect(messages[1]).toEqual({ error: new Error("boom"), where: "a later one" });
  });
});

describe("an operation with a subscriber that calls it", () => {
  const channel = tracingChannel<object>("dbq:of-this-test");
  const where = "the `call` that a subscriber of tracing:dbq:of-this-test:start has set";
  const error = new Error("the subscriber is broken");
  type Call = NonNullable<Traced["call"]>;
  const notCalled = expect.objectContaining({
    message: expect.stringMatching(/^it did not call its operation at once, so it runs without it$/),
  });
  const calledAgain = expect.objectContaining({
    message: expect.stringMatching(/^it called its operation again, which runs once$/),
  });

  const calls: readonly [what: string, call: Call, reported: readonly unknown[]][] = [
    ["calls it", (operation) => operation(), []],
    ["throws before", () => raise(error), [error]],
    [
      "throws after it",
      (operation) => {
        operation();
        return raise(error);
      },
      [error],
    ],
    ["never calls it", () => 7 as never, [notCalled]],
    [
      "calls it twice",
      (operation) => {
        operation();
        return operation();
      },
      [calledAgain],
    ],
    [
      "hides how it ended",
      (operation) => {
        try {
          operation();
        } catch {}
        return "another" as never;
      },
      [],
    ],
    ["is no function", "call" as never, [expect.any(TypeError)]],
    ["rejects", (async () => raise(error)) as never, [notCalled, error]],
    ["awaits it", (async (operation: () => unknown) => await operation()) as never, []],
  ];

  it.each(calls)("runs once and ends as it does, though the subscriber %s", async (_, call, reported) => {
    const messages = listening();
    let runs = 0;
    const returns = () => {
      runs += 1;
      return "done";
    };
    expect(callTraced(channel, { call }, returns)).toBe("done");
    expect(runs).toBe(1);
    await turns(1);
    expect(messages).toEqual(reported.map((one) => ({ error: one, where })));
  });

  it.each(calls)("throws its own error once, though the subscriber %s", async (what, call, reported) => {
    const messages = listening();
    let runs = 0;
    const own = new Error("of the operation");
    const throws = () => {
      runs += 1;
      throw own;
    };
    expect(() => callTraced(channel, { call }, throws)).toThrow(own);
    expect(runs).toBe(1);
    await turns(1);
    // The first call threw out of a subscriber that calls twice, or throws afterwards.
    const isHeard = what !== "calls it twice" && what !== "throws after it";
    expect(messages).toEqual(isHeard ? reported.map((one) => ({ error: one, where })) : []);
  });

  it("that is called later by its subscriber too runs once", async () => {
    const messages = listening();
    const operation = vi.fn(() => "done");
    const late = deferred<() => unknown>();
    const call = (async (given: () => unknown) => {
      await Promise.resolve();
      late.resolve(given);
    }) as never;
    expect(callTraced(channel, { call }, operation)).toBe("done");
    expect((await late.promise)()).toBe("done");
    expect(operation).toHaveBeenCalledTimes(1);
    expect(messages).toEqual([notCalled, calledAgain].map((one) => ({ error: one, where })));
  });
});
