/** Faults of what goes in and comes out: values, sizes, thrown things, terminals, HTML, the command line. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const keeps = (test: string) => ({
  file: "test/base/values/codec-keeps.test.ts",
  test: `kept exactly > ${test}`,
});
const refuses = (test: string) => ({
  file: "test/base/values/codec-refuses.test.ts",
  test: `a value that JSON cannot carry > ${test}`,
});
const inCli = (file: string, test: string) => ({ file: `test/entries/cli/${file}.test.ts`, test });

export const valueFaults: readonly Mutant[] = [
  {
    name: "minus-zero-becomes-zero",
    why: "A handler gets 0 for -0.",
    in: "Writer.#number",
    find: 'Object.is(value, -0) ? "-0" : String(value)',
    replace: "String(value)",
    caughtBy: keeps("-0"),
  },
  {
    name: "undefined-in-an-array-becomes-null",
    why: "A handler gets null where the caller gave nothing.",
    in: "Writer.#array",
    find: "this.item(i, array[i])",
    replace: "this.item(i, array[i] ?? null)",
    caughtBy: refuses("undefined in an array has its exact path"),
  },
  {
    name: "not-a-number-becomes-null",
    why: "A handler gets null for NaN.",
    in: "Writer.#number",
    find: "this.#refuse(`${value} cannot be kept as JSON`)",
    replace: '"null"',
    caughtBy: refuses("NaN"),
  },
  {
    name: "proto-key-is-dropped",
    why: "An own key __proto__ of a caller's object is silently gone.",
    in: "Writer.#plain",
    find: "value !== undefined",
    replace: 'value !== undefined && key !== "__proto__"',
    caughtBy: keeps("__proto__ as an own key, at each depth, without touching a prototype"),
  },
  {
    name: "one-level-too-deep",
    why: "A value is written that other readers of the row refuse.",
    in: "Writer.#object",
    find: "this.#inside.length >= maxDepth",
    replace: "this.#inside.length > maxDepth",
    caughtBy: refuses("more than 100 levels, at the level that is one too many"),
  },
  {
    name: "cycles-run-until-the-depth-ends",
    why: "A cycle is refused as too deep, with a path of a hundred steps.",
    in: "Writer.#object",
    find: 'if (this.#inside.includes(value)) return this.#refuse("a cycle: it contains itself");',
    replace: 'if (this.#inside.length < 0) return this.#refuse("a cycle: it contains itself");',
    caughtBy: refuses("a cycle through an object has its exact path"),
  },
  {
    name: "instances-lose-their-class",
    why: "An instance of a class goes in, and an object without its methods comes out.",
    in: "Writer.#plain",
    find: "if (!isPlain(object)) return this.#refuseKind(object);",
    replace: "",
    caughtBy: refuses("an instance of a class"),
  },
  {
    name: "what-hides-its-class-becomes-empty",
    why: "A Date whose prototype was replaced goes in, and an empty object comes out.",
    in: "Writer.#plain",
    find: 'text === "" && hasSlots(object)',
    replace: 'text !== "" && hasSlots(object)',
    caughtBy: {
      file: "test/property/values-refused.test.ts",
      test: "what looks plain and is not > a Date whose prototype was replaced is refused",
    },
  },
  {
    name: "numbers-of-other-programs-are-rounded",
    why: "An id of 64 bits that another program has written arrives as another id.",
    in: "decode",
    find: "if (mayBend.test(text)) refuseBent(text, column);",
    replace: "",
    caughtBy: {
      file: "test/property/raw-json.test.ts",
      test: "numbers that JavaScript does not have > 2^53 + 1 is not given as another number",
    },
  },
  {
    name: "payload-in-utf16-units",
    why: "A payload of emoji takes twice the bytes that are allowed.",
    in: "checkSize",
    find: "size += Buffer.byteLength(text)",
    replace: "size += text.length",
    caughtBy: {
      file: "test/queue/enqueue.test.ts",
      test: "a payload > is measured in bytes of UTF-8, args, kwargs and meta together",
    },
  },
  {
    name: "corrupt-args-are-tried-again",
    why: "A row that nobody can read is tried four times, with backoff.",
    in: "RunningAttempt.#begin",
    find: "final: true",
    replace: "final: false",
    caughtBy: {
      file: "test/worker/outcomes.test.ts",
      test: 'args that are "[\\"a\\"," fail that task alone',
    },
    hangs: true,
  },
  {
    name: "one-corrupt-row-hides-all",
    why: "A list fails because somebody wrote no JSON into one row of it.",
    in: "readable",
    find: "try { return read(text); } catch { return text; }",
    replace: "try { return read(text); } catch (error) { throw error; return text; }",
    caughtBy: {
      file: "test/queue/look.test.ts",
      test: "getTask > reads a row whose JSON somebody corrupted as its raw text, and lists it with the others",
    },
  },
  {
    name: "hostile-error-breaks-the-worker",
    why: "A thrown value whose message throws when it is read takes the attempt's outcome away.",
    in: "stringOr",
    find: 'try { const value = read(); return typeof value === "string" ? value : otherwise; } catch { return otherwise; }',
    replace:
      'try { const value = read(); return typeof value === "string" ? value : otherwise; } catch (error) { throw error; }',
    caughtBy: {
      file: "test/base/values/thrown.test.ts",
      test: "describeThrown > an error whose message throws",
    },
  },
  {
    name: "long-errors-are-kept-whole",
    why: "An error with a message of megabytes makes the row of its task as large, and each list of it.",
    in: "beginning",
    find: "text.length <= longest",
    replace: "text.length >= 0",
    caughtBy: { file: "test/base/values/thrown.test.ts", test: "describeThrown > an error of 5 MB" },
  },
  {
    name: "terminal-is-obeyed",
    why: "A task's name or error that holds escape sequences rewrites the operator's terminal.",
    in: "printable",
    find: "text.replace(unprintable, $$$rest)",
    replace: "text.replace(/\\0/g, $$$rest)",
    caughtBy: inCli("terminal.full", "what a terminal obeys, hides or turns around is spelled out"),
  },
  {
    name: "text-is-turned-around",
    why: "Text that holds bidirectional controls shows another task than the one which is meant.",
    in: "unprintable",
    find: "/[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}]/gu",
    replace: "/[\\p{Cc}\\p{Zl}\\p{Zp}\\p{Cs}]/gu",
    caughtBy: inCli("terminal.full", "what a terminal obeys, hides or turns around is spelled out"),
  },
  {
    name: "json-reaches-the-terminal-raw",
    why: "JSON output holds C1 controls, which a terminal obeys.",
    in: "jsonText",
    find: "json.replace(unsafeInJson, $$$rest)",
    replace: "json.replace(/\\0/g, $$$rest)",
    caughtBy: inCli(
      "terminal.full",
      "nothing of a task's data reaches the terminal raw, from any command that looks or operates",
    ),
  },
  {
    name: "warnings-reach-the-terminal-raw",
    why: "A handler's error that nobody listens to rewrites the terminal in which the app runs.",
    in: "textOf",
    find: "/\\p{Cc}/gu",
    replace: "/\\0/gu",
    caughtBy: { file: "test/warnings.test.ts", test: "an escape sequence is spelled out" },
  },
  {
    name: "html-is-not-escaped",
    why: "The demo's page runs what a document says in a script.",
    in: "escapeHtml",
    find: `/[&<>"']/g`,
    replace: `/[&"']/g`,
    caughtBy: {
      file: "test/demo/markdown.full.test.ts",
      test: 'a hostile document > "<script>alert(1)</script>" does no harm',
    },
  },
  {
    name: "typed-numbers-are-rounded",
    why: "An id of twenty digits that is typed into `dbq enqueue` is enqueued as another one.",
    in: "json",
    find: "refuseRounding(text, name);",
    replace: "",
    caughtBy: inCli("parse", "JSON is what it is to be, and no number of it is rounded"),
  },
  {
    name: "second-signal-waits",
    why: "An operator who presses Ctrl-C twice waits for the whole grace.",
    in: "Shutdown.#onSignal",
    find: "this.#stop(`${signal}: stopping now`, 0)",
    replace: "this.#stop(`${signal}: stopping now`, this.#grace)",
    caughtBy: inCli("worker", "a second signal does not wait for the grace"),
    hangs: true,
  },
  {
    name: "purge-without-asking",
    why: "`dbq purge` deletes without --yes.",
    in: "purge",
    find: "!options.yes",
    replace: '!options.yes && func === ""',
    caughtBy: inCli("operate", "purge: without --yes only says what it would do, with exit code 2"),
  },
];
