/** What cannot be told to a caller reaches whoever listens, or is a process warning; and never hurts who tells it. */
import { once } from "node:events";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { errorChannel, guarded, report } from "../src/events.ts";

/** What is published on the error channel until the test ends. */
function listening(): unknown[] {
  const messages: unknown[] = [];
  const listener = (message: unknown) => void messages.push(message);
  errorChannel.subscribe(listener);
  onTestFinished(() => void errorChannel.unsubscribe(listener));
  return messages;
}

const boom = (): never => {
  throw new Error("boom");
};

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
