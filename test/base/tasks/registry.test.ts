/** Functions under stable names: they stay callable, and unregistered functions are refused. */
import { describe, expect, it } from "vitest";
import { definitionNamed } from "../../../src/base/tasks/registry.ts";
import {
  registeredNames,
  registerTasks,
  remoteTask,
  task,
  UnregisteredFunctionError,
  withOptions,
} from "../../../src/index.ts";
import { prepare } from "../../../src/queue/enqueue.ts";
import { uniqueName } from "../../support/queue.ts";

/** The row that an enqueue of this function with these arguments would write. */
const written = (fn: unknown, ...args: unknown[]) => prepare(fn, args, 1_000_000).task;

const wrong = (value: unknown) => value as never;

describe("task", () => {
  it("returns a function that runs at once, with its arguments, result and errors, synchronous or not", async () => {
    const add = task(uniqueName(), (a: number, b: number) => a + b);
    expect(add(1, 2)).toBe(3);
    const later = task(uniqueName(), async (text: string) => text.length);
    await expect(later("four")).resolves.toBe(4);
    const error = new Error("mine");
    const broken = task(uniqueName(), () => {
      throw error;
    });
    expect(() => broken()).toThrow(error);
  });

  it("returns a function that has its name and is listed", () => {
    const name = uniqueName("named");
    const fn = task(name, () => 1);
    expect(fn.taskName).toBe(name);
    expect(fn.name).toBe(name);
    expect(registeredNames()).toContain(name);
    expect(definitionNamed(name)?.name).toBe(name);
    expect(definitionNamed("toString")).toBeUndefined();
  });

  it("accepts an anonymous function, and any name that a row can store", () => {
    for (const name of ["__proto__", "constructor", "größe.ändern/v2 😀", "x".repeat(255)]) {
      const fn = task(name, () => 1);
      expect(written(fn)).toMatchObject({ func: name });
    }
  });

  it.each<[what: string, name: unknown]>([
    ["empty", ""],
    ["not a string", 7],
    ["missing", undefined],
    ["too long", "x".repeat(256)],
    ["with NUL", "a\0b"],
    ["with half of a surrogate pair", "a\ud800"],
  ])("refuses a name that is %s", (_, name) => {
    expect(() => task(wrong(name), () => 1)).toThrow(TypeError);
    expect(() => task(wrong(name), () => 1)).toThrow("task: name: expected a well-formed string");
    expect(() => remoteTask(wrong(name))).toThrow(TypeError);
  });

  it.each<[what: string, fn: unknown, shown: string]>([
    ["nothing", undefined, "undefined"],
    ["an object", {}, "an object"],
    ["a string", "fn", '"fn"'],
    ["a generator function", function* () {}, "generator"],
    ["an async generator function", async function* () {}, "generator"],
  ])("refuses %s instead of a function, and registers nothing", (_, fn, shown) => {
    const name = uniqueName();
    expect(() => task(name, wrong(fn))).toThrow(TypeError);
    expect(() => task(name, wrong(fn))).toThrow(shown);
    expect(() => task(name, wrong(fn))).toThrow(name);
    expect(registeredNames()).not.toContain(name);
  });

  it("refuses the name of another function, which stays registered", () => {
    const name = uniqueName();
    const first = task(name, () => "first");
    expect(() => task(name, () => "second")).toThrow(TypeError);
    expect(() => task(name, () => "second")).toThrow(`task "${name}" is already registered`);
    expect(definitionNamed(name)?.fn?.()).toBe("first");
    expect(first()).toBe("first");
  });

  it("accepts the same function under its name again, as when a module is loaded twice", () => {
    const name = uniqueName();
    const fn = () => 1;
    task(name, fn);
    expect(() => task(name, fn, { priority: 7 })).not.toThrow();
    expect(definitionNamed(name)?.call).toEqual({ priority: 7 });
  });

  it("registers nothing with a wrong option", () => {
    const name = uniqueName();
    expect(() => task(name, () => 1, wrong({ retries: 5 }))).toThrow(TypeError);
    expect(registeredNames()).not.toContain(name);
  });
});

describe("with", () => {
  const base = () =>
    task(uniqueName("with"), (...words: string[]) => words.join(" "), { priority: 7, queueName: "a" });

  it("sets the options of one call in place of the task's, and does not change the task", () => {
    const fn = base();
    const urgent = fn.with({ priority: 9, requestId: "r" });
    expect(written(urgent)).toMatchObject({ func: fn.taskName, priority: 9, queueName: "a", requestId: "r" });
    expect(written(fn)).toMatchObject({ priority: 7, queueName: "a", requestId: null });
    expect(urgent.taskName).toBe(fn.taskName);
    expect(urgent("still", "callable")).toBe("still callable");
  });

  it("chains: later options replace earlier ones, and undefined is ignored", () => {
    const fn = base().with({ priority: 1, uniqueKey: "k", meta: { a: 1 } });
    const again = fn.with({ priority: 2, meta: { b: 2 } });
    expect(written(again)).toMatchObject({ priority: 2, uniqueKey: "k", meta: '{"b":2}' });
    expect(written(fn.with(wrong({ priority: undefined })))).toMatchObject({ priority: 1 });
    expect(written(fn)).toMatchObject({ priority: 1, meta: '{"a":1}' });
  });

  it("a later delay removes an earlier waitUntil and vice versa, also the task's own", () => {
    const moment = new Date(1_234);
    const fn = task(uniqueName(), () => 1, { delay: "1m" });
    expect(written(fn)).toMatchObject({ delay: 60_000, waitUntil: null });
    expect(written(fn.with({ waitUntil: moment }))).toMatchObject({ delay: null, waitUntil: 1_234 });
    const dated = task(uniqueName(), () => 1, { waitUntil: moment });
    expect(written(dated.with({ delay: 5 }))).toMatchObject({ delay: 5, waitUntil: null });
    const back = fn.with({ waitUntil: moment }).with({ delay: 5 });
    expect(written(back)).toMatchObject({ delay: 5, waitUntil: null });
  });

  describe("kwargs", () => {
    const resize = task(
      uniqueName(),
      (path: string, options: { width: number }) => `${path} ${options?.width}`,
    );

    it("are stored beside the other arguments", () => {
      const wide = resize.with({ kwargs: { width: 320 } });
      expect(written(wide, "a.png")).toMatchObject({ args: '["a.png"]', kwargs: '{"width":320}' });
      expect(written(resize, "a.png", { width: 1 })).toMatchObject({ kwargs: "{}" });
    });

    it("are the last argument of a direct call, too", () => {
      expect(resize.with({ kwargs: { width: 320 } })("a.png")).toBe("a.png 320");
    });
  });
});

describe("registerTasks and withOptions", () => {
  it("leave functions unwrapped", () => {
    const [send, fetchAll] = [(to: string) => to, async () => []];
    const names = [uniqueName(), uniqueName()] as const;
    registerTasks({ [names[0]]: send, [names[1]]: fetchAll });
    expect(written(send, "a@b")).toMatchObject({ func: names[0], args: '["a@b"]' });
    expect(written(fetchAll)).toMatchObject({ func: names[1] });
    expect(written(withOptions(send, { priority: 1 }), "a@b")).toMatchObject({ func: names[0], priority: 1 });
    expect(withOptions(send, {})("here and now")).toBe("here and now");
  });

  it("refuse a value that is not a function, a name that is taken, and a generator function", () => {
    const name = uniqueName();
    task(name, () => 1);
    expect(() => registerTasks({ [name]: () => 2 })).toThrow(`task "${name}" is already registered`);
    expect(() => registerTasks(wrong({ [uniqueName()]: 5 }))).toThrow(TypeError);
    for (const given of [[() => 1], null, undefined, () => 1, "resize"])
      expect(() => registerTasks(wrong(given))).toThrow("such as registerTasks({ resize }), got ");
    expect(registeredNames()).not.toContain("0");
    expect(() => registerTasks(wrong({ [uniqueName()]: function* () {} }))).toThrow("generator");
  });

  it("enqueue a function that is a task already under its first name", () => {
    const [name, alias] = [uniqueName(), uniqueName("alias")];
    const fn = task(name, () => 1, { priority: 9 });
    try {
      registerTasks({ [alias]: fn });
    } catch (error) {
      expect(error).toBeInstanceOf(TypeError);
    }
    expect(written(fn)).toMatchObject({ func: name, priority: 9 });
  });
});

describe("an unregistered function", () => {
  it.each<[what: string, fn: unknown, says: string]>([
    ["by its name", function resize() {}, "function resize is not registered"],
    [
      "that has no name",
      (
        () => () =>
          1
      )(),
      "an anonymous function is not registered",
    ],
    ["an async one", async function fetchAll() {}, "function fetchAll is not registered"],
    ["a class", class Image {}, "function Image is not registered"],
  ])("is refused: %s", (_, fn, says) => {
    for (const use of [() => written(fn), () => withOptions(fn as () => void, {})]) {
      expect(use).toThrow(UnregisteredFunctionError);
      expect(use).toThrow(says);
    }
  });

  it("is also the function that a task wraps, since only the task is registered", () => {
    const inner = () => 1;
    task(uniqueName(), inner);
    expect(() => written(inner)).toThrow('wrap it as task("name", fn)');
  });

  it.each([undefined, null, "resize", 5, {}])("%j is refused as not being a function", (fn) => {
    expect(() => written(fn)).toThrow(TypeError);
    expect(() => written(fn)).toThrow("expected a registered function, got");
  });

  it("is not a name, and the error says how to make one of a name", () => {
    expect(() => written("resize")).toThrow('got "resize": remoteTask("resize") makes one of a task\'s name');
  });
});

describe("remoteTask", () => {
  it("can be enqueued by its name, and cannot run here", () => {
    const name = uniqueName("remote");
    const resize = remoteTask<(path: string) => Promise<void>>(name, { queueName: "python" });
    expect(written(resize, "a.png")).toMatchObject({ func: name, queueName: "python", args: '["a.png"]' });
    expect(written(resize.with({ priority: 1 }), "a.png")).toMatchObject({
      queueName: "python",
      priority: 1,
    });
    expect(() => resize("a.png")).toThrow(TypeError);
    expect(registeredNames()).not.toContain(name);
  });

  it("refuses options that only apply to a run", () => {
    expect(() => remoteTask(uniqueName(), wrong({ onSuccess: () => 1 }))).toThrow("onSuccess");
  });
});
