/** What the checks of a task make of a schema's answers, whichever library it is of. */
import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { checksOf } from "../../../src/base/validation/checks.ts";
import { InvalidArgumentsError, InvalidResultError, type StandardSchema, task } from "../../../src/index.ts";
import { uniqueName } from "../../support/queue.ts";
import { schemaOf } from "../../support/schemas.ts";

type Part = "input" | "args" | "output";

function checks(part: Part, schema: StandardSchema) {
  const none = { input: undefined, args: undefined, output: undefined };
  const made = checksOf("pay", { ...none, [part]: schema }, 'task "pay"');
  if (made === undefined) throw new Error("no checks");
  return made;
}

function thrownBy(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}

const libraries: Readonly<Record<string, StandardSchema>> = {
  zod: z.object({
    items: z.array(z.object({ price: z.coerce.number().min(1) })),
    note: z.string().default("none"),
  }),
  valibot: v.object({
    items: v.array(
      v.object({ price: v.pipe(v.union([v.string(), v.number()]), v.transform(Number), v.minValue(1)) }),
    ),
    note: v.optional(v.string(), "none"),
  }),
  arktype: type({
    items: type({ price: "number >= 1 | string.numeric.parse" }).array(),
    note: "string = 'none'",
  }),
};

describe.each(Object.entries(libraries))("a schema of %s", (_, schema) => {
  test("gives the function defaults and coerced values", () => {
    const { args } = checks("input", schema);
    expect(args?.([{ items: [{ price: "5" }] }])).toEqual([{ items: [{ price: 5 }], note: "none" }]);
  });

  test("says at which path a value is wrong", () => {
    const { args } = checks("input", schema);
    const error = thrownBy(() => args?.([{ items: [{ price: 2 }, { price: 0 }] }]));
    expect(error).toBeInstanceOf(InvalidArgumentsError);
    const { issues, code, message } = error as InvalidArgumentsError;
    expect([code, issues.map(({ path }) => path)]).toEqual([
      "DBQ_INVALID_ARGUMENTS",
      [["items", 1, "price"]],
    ]);
    expect(message).toContain('task "pay": the arguments are invalid: input.items[1].price: ');
    expect(message).toContain(issues[0]?.message);
  });
});

test("a schema of all arguments is given their tuple, and its paths begin there", () => {
  const { args } = checks("args", z.tuple([z.string(), z.number().default(80)]));
  expect(args?.(["a.png"])).toEqual(["a.png", 80]);
  const error = thrownBy(() => args?.(["a.png", "wide"])) as InvalidArgumentsError;
  expect(error.issues.map(({ path }) => path)).toEqual([[1]]);
  expect(error.message).toContain("args[1]: ");
});

test("a schema of the only argument refuses a second one, which it would not see", () => {
  const { args } = checks("input", z.string());
  expect(thrownBy(() => args?.(["a", "b"]))).toMatchObject({
    issues: [{ message: "expected one argument, got 2", path: [] }],
    message: 'task "pay": the arguments are invalid: input: expected one argument, got 2',
  });
});

test("a result that its schema refuses has an error of its own", () => {
  const { result } = checks("output", z.object({ paid: z.boolean() }));
  expect(result?.({ paid: true, secret: 1 })).toEqual({ paid: true });
  const error = thrownBy(() => result?.({ paid: "yes" }));
  expect(error).toBeInstanceOf(InvalidResultError);
  expect(error).toMatchObject({ code: "DBQ_INVALID_RESULT", issues: [{ path: ["paid"] }] });
  expect((error as Error).message).toContain('task "pay": the result is invalid: result.paid: ');
});

test("an asynchronous schema answers with a promise", async () => {
  const { args } = checks(
    "input",
    z.string().refine(async (text) => text !== "taken", "it is taken"),
  );
  const checking = args?.(["taken"]);
  expect(checking).toBeInstanceOf(Promise);
  await expect(checking).rejects.toMatchObject({ issues: [{ message: "it is taken", path: [] }] });
  expect(await args?.(["free"])).toEqual(["free"]);
});

test("a message names five issues, and the error has all of them", () => {
  const path = [{ key: "odd name" }, Symbol("s"), 0];
  const many = schemaOf(() => ({
    issues: Array.from({ length: 7 }, (_, i) => ({ message: `no ${i}`, path })),
  }));
  const error = thrownBy(() => checks("input", many).args?.([1])) as InvalidArgumentsError;
  expect(error.issues.length).toBe(7);
  expect(error.issues[6]).toEqual({ message: "no 6", path: ["odd name", "Symbol(s)", 0] });
  expect(error.message).toContain('input["odd name"]["Symbol(s)"][0]: no 4; and 2 more');
});

test("the message says so where a schema refuses and names no issue", () => {
  const error = thrownBy(() =>
    checks(
      "input",
      schemaOf(() => ({ issues: [] })),
    ).args?.([1]),
  );
  expect(error).toMatchObject({ name: "InvalidArgumentsError", issues: [] });
  expect((error as Error).message).toMatch(/: the arguments are invalid: the schema gave no issue$/);
});

test("what is no schema is refused when the task is defined", () => {
  const define = (options: object) => () => task(uniqueName(), (_given: unknown) => 1, options as never);
  const expected = "input: expected a Standard Schema, such as one of zod, valibot or arktype, got";
  for (const input of [null, 1, "string", {}, () => true, { "~standard": { version: 2 } }])
    expect(define({ input })).toThrow(expected);
  expect(define({ input: z.string(), args: z.tuple([]) })).toThrow("input and args exclude each other");
  const wide = schemaOf<unknown[], number>(() => ({ value: 1 }));
  expect(thrownBy(() => checks("args", wide).args?.([]))).toMatchObject({
    name: "TypeError",
    message: 'task "pay": what the schema args makes: expected an array of all arguments, got 1',
  });
});

test.each([
  ["nothing", undefined],
  ["null", null],
  ["a text", "fine"],
  ["a promise of nothing", Promise.resolve(undefined)],
  ["issues that are no array", { issues: "too short" }],
])(
  "an answer of a schema that is %s is a TypeError that names the task and the schema",
  async (_, answer) => {
    const { result } = checks(
      "output",
      schemaOf(() => answer as never),
    );
    const error = await Promise.resolve()
      .then(() => result?.(1))
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(TypeError);
    expect((error as TypeError).message).toMatch(/^task "pay": the schema output(: issues)?: expected an a/);
  },
);

test.each([
  ["null", null, { message: "null", path: [] }],
  ["a text", "too short", { message: "too short", path: [] }],
  ["without a message", {}, { message: "no message", path: [] }],
  ["with null as its path", { message: "bad", path: null }, { message: "bad", path: [] }],
  ["with null in its path", { message: "bad", path: ["a", null] }, { message: "bad", path: ["a", "null"] }],
  [
    "with a number that JSON lacks",
    { message: "bad", path: [Number.NaN] },
    { message: "bad", path: ["NaN"] },
  ],
  [
    "with objects that are no text",
    { message: Object.create(null), path: [Object.create(null)] },
    { message: expect.stringContaining("object"), path: [expect.stringContaining("object")] },
  ],
])("an issue that is %s still refuses the value", (_, issue, expected) => {
  const { args } = checks(
    "input",
    schemaOf(() => ({ issues: [issue] }) as never),
  );
  expect((thrownBy(() => args?.([1])) as InvalidArgumentsError).issues).toEqual([expected]);
});
