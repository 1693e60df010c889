/** A second function under one name: a module that is loaded again replaces the first, a mistake is refused. */
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { type Defined, isMistake, placeOfCall } from "../../../src/base/tasks/redefinition.ts";
import { definitionNamed } from "../../../src/base/tasks/registry.ts";
import {
  clearTasks,
  registeredNames,
  registerTasks,
  remoteTask,
  task,
  UnregisteredFunctionError,
  unregisterTask,
} from "../../../src/index.ts";
import { prepare } from "../../../src/queue/enqueue.ts";
import { uniqueName } from "../../support/queue.ts";

const tick = { earlier: {}, now: {} };
const before: Defined = {
  fn: () => 1,
  place: { file: "/app/tasks.ts", line: 3, column: 5, tick: tick.earlier },
};

const now = (place: Partial<Defined["place"]> = {}, fn: unknown = () => 2): Defined => ({
  fn,
  place: { file: "/app/tasks.ts", line: 4, column: 5, tick: tick.now, ...place },
});
const otherFile = { file: "/app/other.ts" };
const sameTick = { tick: tick.earlier };
const samePlace = { line: 3 };
const otherColumn = { line: 3, column: 90 };
const noFile = { file: undefined };
const chunkOfNext = { file: "/app/.next/server/chunks/1.js" };
const sameText = () => 1;
const native = sameText.bind({});

const environments = ["development", "test", undefined, "production"] as const;

describe("a second function under one name", () => {
  const inNoTest = ["development", undefined, "production"] as const;

  it.each<[rule: string, second: Defined, refused: readonly (string | undefined)[]]>([
    ["of the same file replaces the first, except in production", now(), ["production"]],
    ["of the same place replaces the first, except in production", now(samePlace), ["production"]],
    ["of another line in the same tick is refused everywhere", now(sameTick), environments],
    [
      "of another column in the same tick is refused everywhere",
      now({ ...otherColumn, ...sameTick }),
      environments,
    ],
    [
      "of the same place in the same tick is refused, except in a test",
      now({ ...samePlace, ...sameTick }),
      inNoTest,
    ],
    ["of another file is refused, except in development", now(otherFile), ["test", undefined, "production"]],
    ["of an unknown file is refused, except in development", now(noFile), ["test", undefined, "production"]],
    ["with the same text replaces the first, whatever its file", now(otherFile, sameText), []],
    ["with the same text replaces the first in the same place", now(samePlace, sameText), []],
    [
      "with the same text in the same place and tick is refused, except in a test",
      now({ ...samePlace, ...sameTick }, sameText),
      inNoTest,
    ],
    [
      "with the same text on another line in the same tick is refused everywhere",
      now(sameTick, sameText),
      environments,
    ],
    [
      "with the same text in another column in the same tick is refused everywhere",
      now({ ...otherColumn, ...sameTick }, sameText),
      environments,
    ],
    ["with the same text on another line is refused in production", now({}, sameText), ["production"]],
    [
      "with the same text in another column is refused in production",
      now(otherColumn, sameText),
      ["production"],
    ],
    ["in another chunk of Next replaces the first", now({ file: "/app/.next/server/chunks/2.js" }), []],
    [
      "with the same text replaces the first in one chunk of Next, which may hold a module twice",
      now({ ...chunkOfNext, ...otherColumn, ...sameTick }, sameText),
      [],
    ],
    [
      "in the same place of one chunk of Next in the same tick is refused, except in a test",
      now({ ...chunkOfNext, ...samePlace, ...sameTick }, sameText),
      inNoTest,
    ],
    ["that is native is not told by its text", now(otherFile, native), ["test", undefined, "production"]],
  ])("%s", (_, second, refused) => {
    const isOfNext = second.place.file?.includes(".next") === true;
    const first = {
      fn: second.fn === native ? sameText.bind({}) : before.fn,
      place: { ...before.place, ...(isOfNext && chunkOfNext) },
    };
    const found = environments.filter((environment) => isMistake(first, second, environment));
    expect(found).toEqual(environments.filter((environment) => refused.includes(environment)));
  });

  it("has the place of the call that defines it, without a reloaded module's query", () => {
    const [first, second] = [placeOfThisCall(), placeOfThisCall()];
    expect(first.file).toMatch(/^\/.*\/redefinition\.test\.ts$/);
    expect(first.line).toBeGreaterThan(1);
    expect(second).toMatchObject({ file: first.file, line: first.line });
    expect(second.column).toBeGreaterThan(first.column ?? 0);
  });

  function placeOfThisCall() {
    return placeOfCall(placeOfThisCall);
  }
});

describe("a redefinition", () => {
  let warnings: string[];
  beforeEach(() => {
    warnings = [];
    const emitted = vi.spyOn(process, "emitWarning").mockImplementation((text, name) => {
      expect(name).toBe("DbqWarning");
      warnings.push(String(text));
    });
    onTestFinished(() => {
      emitted.mockRestore();
      vi.unstubAllEnvs();
    });
  });

  /** Waits for the end of the tick, as an import does. */
  const redefine = async (name: string, version: number) => {
    await Promise.resolve();
    return task(name, new Function(`return ${version}`) as () => number);
  };

  it("replaces the function, with one warning for each name that says where both are", async () => {
    const name = uniqueName("reloaded");
    for (const version of [1, 2, 3]) await redefine(name, version);
    expect(definitionNamed(name)?.fn?.()).toBe(3);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(
      /^task "reloaded-\d+" was defined again \(first at \/.+redefinition\.test\.ts:\d+:\d+, now at /,
    );
  });

  it("leaves the first function's object usable: it enqueues by its name", async () => {
    const name = uniqueName("stale");
    const stale = await redefine(name, 1);
    await redefine(name, 2);
    expect(prepare(stale, []).task.func).toBe(name);
    expect(stale()).toBe(1);
  });

  describe("by closures of one helper", () => {
    const define = (name: string, result: number) => task(name, () => result);
    const defineTwice = (name: string) => [1, 2].map((result) => define(name, result));

    it.each(["development", undefined, "production"])(
      "is refused in one tick when NODE_ENV is %s",
      (environment) => {
        vi.stubEnv("NODE_ENV", environment);
        const name = uniqueName("looped");
        expect(() => defineTwice(name)).toThrow(
          /already registered, with another function \(both at \/.+:\d+:\d+, by a loop, a helper, or /,
        );
        expect(definitionNamed(name)?.fn?.()).toBe(1);
        expect(warnings).toEqual([]);
      },
    );

    it("replaces the first in a test, where Jest loads a module again within a tick", () => {
      vi.stubEnv("NODE_ENV", "test");
      const name = uniqueName("looped");
      defineTwice(name);
      expect(definitionNamed(name)?.fn?.()).toBe(2);
      expect(warnings).toHaveLength(1);
    });

    it("is no redefinition when each has a name of its own", () => {
      vi.stubEnv("NODE_ENV", "production");
      const fns = [1, 2].map((result) => define(uniqueName("own"), result));
      expect(fns.map((fn) => fn())).toEqual([1, 2]);
      expect(warnings).toEqual([]);
    });
  });

  it.each(environments)(
    "by another function on the same line is refused when NODE_ENV is %s",
    (environment) => {
      vi.stubEnv("NODE_ENV", environment);
      const name = uniqueName("minified");
      // biome-ignore format: both calls are on one line, as in a minified file.
      const define = () => [task(name, () => 1), task(name, () => 2)];
      expect(define).toThrow(/already registered/);
      expect(definitionNamed(name)?.fn?.()).toBe(1);
    },
  );

  it("is refused in production, and the error names both places and what to do", async () => {
    vi.stubEnv("NODE_ENV", "production");
    const name = uniqueName("strict");
    await redefine(name, 1);
    await Promise.resolve();
    expect(() => task(name, () => 2)).toThrow(
      /already registered, with another function \(first at \/.+:\d+:\d+, now at \/.+:\d+:\d+\): .+unregisterTask\("strict-\d+"\)/,
    );
    expect(definitionNamed(name)?.fn?.()).toBe(1);
    expect(warnings).toEqual([]);
  });
});

describe("unregisterTask", () => {
  it.each<[what: string, by: (fn: () => number) => string | (() => number)]>([
    ["name", (fn) => fn.name],
    ["function", (fn) => fn],
  ])("removes a function by its %s: it is no longer listed, and not enqueued", (_, by) => {
    const fn = task(uniqueName("gone"), () => 1);
    expect(unregisterTask(by(fn))).toBe(true);
    expect(unregisterTask(by(fn))).toBe(false);
    expect(registeredNames()).not.toContain(fn.taskName);
    expect(() => prepare(fn, [])).toThrow(UnregisteredFunctionError);
    expect(() => prepare(fn.with({ priority: 1 }), [])).toThrow(UnregisteredFunctionError);
  });

  it("makes the name free for any function, in production too", () => {
    vi.stubEnv("NODE_ENV", "production");
    onTestFinished(() => {
      vi.unstubAllEnvs();
    });
    const first = task(uniqueName("free"), () => 1);
    unregisterTask(first);
    expect(task(first.taskName, () => 2)()).toBe(2);
    expect(definitionNamed(first.taskName)?.fn?.()).toBe(2);
  });

  it("lets registerTasks give the function another name", () => {
    const fn = () => 1;
    const [first, second] = [uniqueName("first"), uniqueName("second")];
    registerTasks({ [first]: fn });
    unregisterTask(fn);
    registerTasks({ [second]: fn });
    expect(prepare(fn, []).task.func).toBe(second);
  });

  it("ignores what is not registered, and refuses what is neither a name nor a function", () => {
    expect(unregisterTask("never there")).toBe(false);
    expect(unregisterTask(() => 1)).toBe(false);
    expect(() => unregisterTask(7 as never)).toThrow("unregisterTask: expected a name or a function, got 7");
  });
});

it("clearTasks removes all functions; a remoteTask still enqueues", () => {
  const fn = task(uniqueName("cleared"), () => 1);
  clearTasks();
  expect(registeredNames()).toEqual([]);
  expect(() => prepare(fn, [])).toThrow(UnregisteredFunctionError);
  expect(prepare(remoteTask("elsewhere"), []).task.func).toBe("elsewhere");
});
