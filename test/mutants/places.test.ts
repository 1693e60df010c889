/**
 * A seeded fault finds its place by the syntax tree: what renames, reformats or moves its code leaves it where it was, and
 * a place that is not certain is an error.
 */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import { describe, expect, it, test } from "vitest";
import { Places } from "../../scripts/mutant-places.mjs";

interface Fault {
  in?: string;
  find: string;
  replace?: string;
}

/** The source with the fault in it, on one line. */
function faulty(source: string, fault: Fault, path = "src/a.ts"): string {
  const places = new Places([{ path, text: source }]);
  const text = places.withFaults([named(fault)]).get(path);
  return (text ?? "").replace(/\s+/g, " ").trim();
}

const named = (fault: Fault, name = "a-fault") => ({ name, replace: "", ...fault });

describe("a fault's piece is found", () => {
  it.each([
    ["whatever its format is", "f(a,\n  'b', // why\n  1_000,\n);", 'f(a, "b", 1000)', "x", "(x);"],
    [
      "among others with the same names",
      "f(a, b); f(b, b); f(b, a);",
      "f(b, b)",
      "x",
      "f(a, b); (x); f(b, a);",
    ],
    ["as statements", "a(1); b(2); c(3);", "a(1); b(2);", "b(2); a(1);", "b(2); a(1); c(3);"],
    ["as a property", "f({ a: 1, b: 2 });", "b: 2", "b: 3", "f({ a: 1, b: 3 });"],
    ["as properties", "f({ a: 1, b: 2, c: 3 });", "a: 1, b: 2", "b: 1", "f({ b: 1, c: 3 });"],
    ["as arguments", "f(0, 1, 2);", "1, 2", "2, 1", "f(0, 2, 1);"],
    ["as a member", "class A { #a = 1; b = 2 }", "#a = 1;", "#a = 3;", "class A { #a = 3; b = 2 }"],
    [
      "as a case",
      "switch (a) { case 1: b(); }",
      "case 1: b();",
      "case 2: b();",
      "switch (a) { case 2: b(); }",
    ],
    ["as an operand, which it stays", "f(a * (b + 1));", "b + 1", "b ? 1 : 2", "f(a * ((b ? 1 : 2)));"],
  ])("%s", (_, source, find, replace, expected) => {
    expect(faulty(source, { find, replace })).toBe(expected);
  });

  it.each([
    ["a statement", "a(); b(1); c();", "b(1);", "a(); c();"],
    ["a statement that another one needs", "if (a) b(1); c();", "b(1);", "if (a) ; c();"],
    ["an argument", "f(a, 1, b);", "1", "f(a, b);"],
    ["the last argument", "f(a, 1);", "1", "f(a);"],
    ["a property", "f({ a: 1, b });", "a: 1", "f({ b });"],
  ])("and left out, where it is %s", (_, source, find, expected) => {
    expect(faulty(source, { find })).toBe(expected);
  });

  it("where its declaration says, though others have the same", () => {
    const source = "class A { b() { f(1); } c() { f(1); } } class B { b() { f(1); } }";
    const expected = "class A { b() { f(1); } c() { f(2); } } class B { b() { f(1); } }";
    expect(faulty(source, { in: "A.c", find: "f(1)", replace: "f(2)" })).toBe(
      expected.replace("f(2)", "(f(2))"),
    );
  });

  it("never under another name of a global of the platform", () => {
    expect(() => faulty("f(undefined); g(Infinity);", { find: "h(Number)" })).toThrow("fits no place");
  });

  it("with holes for code that does not matter, which the replacement may keep", () => {
    const fault = { find: "change($set, $$$rest)", replace: "other($$$rest, $set)" };
    expect(faulty("change((p) => p + 1, 2, [3]);", fault)).toBe("(other(2, [3], (p) => p + 1));");
    expect(faulty("f(1, 2); f(2, 2);", { find: "f($a, $a)", replace: "g($a)" })).toBe("f(1, 2); (g(2));");
    const guarded = { find: "if (a) $then; else c();", replace: "if (!a) $then;" };
    expect(faulty("if (a) { b(); } else c();", guarded)).toBe("if (!a) { b(); }");
  });

  it.each([
    ["a private method", "A.#b", "class A { #b() { return 1; } c() { return 1; } }"],
    [
      "a function in a function",
      "a.b",
      "function a() { const b = () => { return 1; }; const c = () => { return 1; }; }",
    ],
    [
      "a property of what a function returns",
      "a.b",
      "function a() { return { b: () => { return 1; }, c: () => { return 1; } }; }",
    ],
    ["a case of a switch", "a.b", 'function a() { switch (x) { case "b": return 1; case "c": return 1; } }'],
  ])("in %s", (_, within, source) => {
    expect(faulty(source, { in: within, find: "return 1;", replace: "return 2;" })).toBe(
      source.replace("return 1;", "return 2;"),
    );
  });
});

describe("a fault is still found after", () => {
  it("a rename of variables, and its replacement follows", () => {
    const fault = { find: "if (tries > 0) return made;", replace: "if (made) return tries;" };
    expect(faulty("function f(a, b) { if (a > 0) return b; }", fault)).toBe(
      "function f(a, b) { if (b) return a; }",
    );
  });

  it("a rename of private fields and methods", () => {
    const fault = { in: "Pool.close", find: "this.#open.clear();", replace: "this.#open.has(1);" };
    expect(faulty("class Pool { close() { this.#all.clear(); } }", fault)).toBe(
      "class Pool { close() { this.#all.has(1); } }",
    );
  });

  it("a rename of a variable, a property or both, where one shorthand stood for the two", () => {
    const fault = { find: "write({ id }, 1)", replace: "write({ id }, 2)" };
    expect(faulty("write({ id: task }, 1);", fault)).toBe("(write({ id: task }, 2));");
    expect(faulty("write({ task: id }, 1);", fault)).toBe("(write({ task: id }, 2));");
    expect(faulty("write({ task }, 1);", fault)).toBe("(write({ task }, 2));");
  });

  it("a rename beside code of the same form, which would need more renames", () => {
    const source = "class A { b() { this.#x.go(); this.#y.go(); } }";
    const expected = "class A { b() { this.#y.go(); } }";
    expect(faulty(source, { in: "A.b", find: "this.#x.start();" })).toBe(expected);
  });

  it("a move to another file", () => {
    const files = [
      { path: "src/a.ts", text: "export const b = 1;" },
      { path: "src/elsewhere/c.mjs", text: "export function d() { return 1; }" },
    ];
    const { file } = new Places(files).editOf(named({ in: "d", find: "return 1;" }));
    expect(file).toBe("src/elsewhere/c.mjs");
  });
});

describe("a part of a template", () => {
  const source =
    "const q = (p) => sql`select 1\n    from t where id = ${p.id} and  beat = ${p.beat} ${locked}`;";

  it("is found up to white space, and its values by their structure", () => {
    const fault = { find: "`where id = ${a.b} and beat = ${a.c}`", replace: "`where id = ${a.b}`" };
    expect(faulty(source, fault)).toBe("const q = (p) => sql`select 1 from t where id = ${p.id} ${locked}`;");
  });

  it("is found inside of its text, and left out", () => {
    expect(faulty(source, { find: "`select 1 from t`" })).toBe(
      "const q = (p) => sql` where id = ${p.id} and beat = ${p.beat} ${locked}`;",
    );
  });

  it("needs all of its text between two values", () => {
    expect(() => faulty(source, { find: "`id = ${p.id} and ${locked}`" })).toThrow("fits no place");
  });

  it("is ambiguous where its text occurs twice", () => {
    expect(() => faulty("sql`a b a`;", { find: "`a`" })).toThrow("fits more than one place");
  });

  it("is a whole one where it has a tag, or is in something else", () => {
    const fault = { find: "sql`a ${x}\n b`", replace: "sql`c`" };
    expect(faulty("f(sql`a ${x} b`, sql`a ${x} b c`);", fault)).toBe("f((sql`c`), sql`a ${x} b c`);");
  });

  it("is found in a migration", () => {
    const fault = { find: "`INDEX \\`i\\` WHERE a = 1`", replace: "`INDEX \\`i\\` WHERE a = 2`" };
    expect(faulty("CREATE INDEX `i`\n WHERE a = 1;", fault, "migrations/a.sql")).toBe(
      "CREATE INDEX `i` WHERE a = 2;",
    );
  });
});

describe("a fault without a certain place is an error", () => {
  it("where two places fit as well", () => {
    const source = "class A { b() { this.x.go();\n this.y.go(); } }";
    expect(() => faulty(source, { in: "A.b", find: "this.z.go();" })).toThrow(
      '"this.z.go();" in A.b fits more than one place:\n  src/a.ts:1: this.x.go();\n  src/a.ts:2: this.y.go();',
    );
  });

  it.each(["class Slots { #cycle() { f(limit + 1); } }", "class Dispatcher { #turn() { f(limit + 1); } }"])(
    "where a declaration that it names has another name, though the code is there: %s",
    (source) => {
      const fault = { in: "Slots.#turn", find: "limit + 1", replace: "limit" };
      expect(() => faulty(source, fault)).toThrow(/nothing in the sources is declared as (Slots|#turn)$/);
    },
  );

  it("where its code stands outside of the declaration that it names", () => {
    const fault = { in: "turn", find: "limit + 1", replace: "limit" };
    expect(() => faulty("f(limit + 1); function turn() { f(1); }", fault)).toThrow("in turn fits no place");
  });

  it("where two of its names are one in the source, or one is two", () => {
    expect(() => faulty("f(a < a);", { find: "x < y" })).toThrow("fits no place");
    expect(() => faulty("f(a < b);", { find: "x < x" })).toThrow("fits no place");
    expect(() => faulty("a.f(a.a);", { find: "x.f(y.z)" })).toThrow("fits no place");
  });

  it.each([
    ["another literal", "f(1);", "f(2)"],
    ["another operator", "f(a < b);", "a <= b"],
    ["more arguments", "f(1, a);", "f(1)"],
    ["fewer statements", "{ a(); }", "a(); b();"],
    ["another type", "const a = b as string;", "b as number"],
    ["another flag", "async () => { a(1); };", "() => { a(1); }"],
  ])("where the source has %s", (_, source, find) => {
    expect(() => faulty(source, { find })).toThrow("fits no place");
  });

  it("and names what comes nearest", () => {
    const source = "class A { b() { f(1, 2);\n f(g(1), 3); } }";
    expect(() => faulty(source, { in: "A.b", find: "f(g(1), 4)" })).toThrow(
      '"f(g(1), 4)" in A.b fits no place; the nearest:\n  src/a.ts:2: f(g(1), 3)',
    );
  });

  it("where it is no piece of TypeScript, or nothing can be left out there", () => {
    expect(() => faulty("a();", { find: "if (a" })).toThrow("no piece of TypeScript: if (a");
    expect(() => faulty("const a = b + 1;", { find: "b + 1" })).toThrow("can be replaced by nothing");
  });

  it("which is said with its name", () => {
    const places = new Places([{ path: "src/a.ts", text: "a();" }]);
    const [line] = places.misfits([named({ find: "b(1)" }, "some-fault"), named({ find: "a()" })]);
    expect(line).toMatch(/^some-fault: "b\(1\)" fits no place/);
  });
});

test("faults that do not overlap are compiled at once", () => {
  const places = new Places([{ path: "src/a.ts", text: "a(1 + 2); b(3);" }]);
  const faults = [
    named({ find: "1 + 2", replace: "2 + 1" }, "a"),
    named({ find: "b(3)", replace: "b(4)" }, "b"),
    named({ find: "a(1 + 2)", replace: "a(0)" }, "c"),
  ];
  expect(places.layersOf(faults).map((layer) => layer.map(({ name }) => name))).toEqual([["a", "b"], ["c"]]);
  expect(places.withFaults(faults.slice(0, 2)).get("src/a.ts")).toBe("a((2 + 1)); (b(4));");
});
