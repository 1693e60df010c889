/** Faults of what goes in and comes out: values, sizes, thrown things, terminals, HTML, the command line. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const codec = "src/base/values/codec.ts";

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
    file: codec,
    find: 'Object.is(value, -0) ? "-0" : String(value)',
    replace: "String(value)",
    caughtBy: keeps("-0"),
  },
  {
    name: "undefined-in-an-array-becomes-null",
    why: "A handler gets null where the caller gave nothing.",
    file: codec,
    find: "this.item(i, array[i]);\n    // No hole",
    replace: "this.item(i, array[i] ?? null);\n    // No hole",
    caughtBy: refuses("undefined in an array has its exact path"),
  },
  {
    name: "not-a-number-becomes-null",
    why: "A handler gets null for NaN.",
    file: codec,
    find: "if (!Number.isFinite(value)) return this.#refuse(`${value} cannot be kept as JSON`);",
    replace: 'if (!Number.isFinite(value)) return "null";',
    caughtBy: refuses("NaN"),
  },
  {
    name: "proto-key-is-dropped",
    why: "An own key __proto__ of a caller's object is silently gone.",
    file: codec,
    find: "if (value !== undefined)\n        text",
    replace: 'if (value !== undefined && key !== "__proto__")\n        text',
    caughtBy: keeps("__proto__ as an own key, at each depth, without touching a prototype"),
  },
  {
    name: "one-level-too-deep",
    why: "A value is written that other readers of the row refuse.",
    file: codec,
    find: "this.#inside.length >= maxDepth",
    replace: "this.#inside.length > maxDepth",
    caughtBy: refuses("more than 100 levels, at the level that is one too many"),
  },
  {
    name: "cycles-run-until-the-depth-ends",
    why: "A cycle is refused as too deep, with a path of a hundred steps.",
    file: codec,
    find: "if (this.#inside.includes(value)) return",
    replace: "if (this.#inside.length < 0) return",
    caughtBy: refuses("a cycle through an object has its exact path"),
  },
  {
    name: "instances-lose-their-class",
    why: "An instance of a class goes in, and an object without its methods comes out.",
    file: codec,
    find: "if (!isPlain(object)) return this.#refuseKind(object);",
    replace: "",
    caughtBy: refuses("an instance of a class"),
  },
  {
    name: "what-hides-its-class-becomes-empty",
    why: "A Date whose prototype was replaced goes in, and an empty object comes out.",
    file: codec,
    find: 'if (text === "" && hasSlots(object))',
    replace: 'if (text !== "" && hasSlots(object))',
    caughtBy: {
      file: "test/property/values-refused.test.ts",
      test: "what looks plain and is not > a Date whose prototype was replaced is refused",
    },
  },
  {
    name: "numbers-of-other-programs-are-rounded",
    why: "An id of 64 bits that another program has written arrives as another id.",
    file: codec,
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
    file: codec,
    find: "size += Buffer.byteLength(text);",
    replace: "size += text.length;",
    caughtBy: {
      file: "test/queue/enqueue.test.ts",
      test: "a payload > is measured in bytes of UTF-8, args, kwargs and meta together",
    },
  },
  {
    name: "corrupt-args-are-tried-again",
    why: "A row that nobody can read is tried four times, with backoff.",
    file: "src/worker/attempt.ts",
    after: "this.#kwargs = decodeObject",
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
    file: "src/base/values/records.ts",
    find: "return read(text);\n  } catch {",
    replace: "return read(text);\n  } catch (error) {\n    throw error;",
    caughtBy: {
      file: "test/queue/look.test.ts",
      test: "getTask > reads a row whose JSON somebody corrupted as its raw text, and lists it with the others",
    },
  },
  {
    name: "hostile-error-breaks-the-worker",
    why: "A thrown value whose message throws when it is read takes the attempt's outcome away.",
    file: "src/base/values/thrown.ts",
    find: 'return typeof value === "string" ? value : otherwise;\n  } catch {\n    return otherwise;',
    replace: 'return typeof value === "string" ? value : otherwise;\n  } catch (error) {\n    throw error;',
    caughtBy: {
      file: "test/base/values/thrown.test.ts",
      test: "describeThrown > an error whose message throws",
    },
  },
  {
    name: "long-errors-are-kept-whole",
    why: "An error with a message of megabytes makes the row of its task as large, and each list of it.",
    file: "src/base/values/thrown.ts",
    find: "text.length <= longest ?",
    replace: "text.length >= 0 ?",
    caughtBy: { file: "test/base/values/thrown.test.ts", test: "describeThrown > an error of 5 MB" },
  },
  {
    name: "terminal-is-obeyed",
    why: "A task's name or error that holds escape sequences rewrites the operator's terminal.",
    file: "src/entries/cli/text.ts",
    find: "return text.replace(unprintable, (character)",
    replace: "return text.replace(/\\0/g, (character)",
    caughtBy: inCli("terminal.full", "what a terminal obeys, hides or turns around is spelled out"),
  },
  {
    name: "text-is-turned-around",
    why: "Text that holds bidirectional controls shows another task than the one which is meant.",
    file: "src/entries/cli/text.ts",
    find: "/[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}]/gu",
    replace: "/[\\p{Cc}\\p{Zl}\\p{Zp}\\p{Cs}]/gu",
    caughtBy: inCli("terminal.full", "what a terminal obeys, hides or turns around is spelled out"),
  },
  {
    name: "json-reaches-the-terminal-raw",
    why: "JSON output holds C1 controls, which a terminal obeys.",
    file: "src/entries/cli/text.ts",
    find: "return json.replace(unsafeInJson, (characters)",
    replace: "return json.replace(/\\0/g, (characters)",
    caughtBy: inCli(
      "terminal.full",
      "nothing of a task's data reaches the terminal raw, from any command that looks or operates",
    ),
  },
  {
    name: "warnings-reach-the-terminal-raw",
    why: "A handler's error that nobody listens to rewrites the terminal in which the app runs.",
    file: "src/events.ts",
    find: ".replace(/\\p{Cc}/gu,",
    replace: ".replace(/\\0/gu,",
    caughtBy: { file: "test/warnings.test.ts", test: "an escape sequence is spelled out" },
  },
  {
    name: "html-is-not-escaped",
    why: "The demo's page runs what a document says in a script.",
    file: "demo/html.ts",
    after: "export function escapeHtml",
    find: "[&<>\"']",
    replace: "[&\"']",
    caughtBy: {
      file: "test/demo/markdown.full.test.ts",
      test: 'a hostile document > "<script>alert(1)</script>" does no harm',
    },
  },
  {
    name: "typed-numbers-are-rounded",
    why: "An id of twenty digits that is typed into `dbq enqueue` is enqueued as another one.",
    file: "src/entries/cli/parse.ts",
    find: "  refuseRounding(text, name);\n",
    replace: "",
    caughtBy: inCli("parse", "JSON is what it is to be, and no number of it is rounded"),
  },
  {
    name: "second-signal-waits",
    why: "An operator who presses Ctrl-C twice waits for the whole grace.",
    file: "src/entries/cli/shutdown.ts",
    find: "this.#stop(`${signal}: stopping now`, 0);",
    replace: "this.#stop(`${signal}: stopping now`, this.#grace);",
    caughtBy: inCli("worker", "a second signal does not wait for the grace"),
    hangs: true,
  },
  {
    name: "purge-without-asking",
    why: "`dbq purge` deletes without --yes.",
    file: "src/entries/cli/commands/purge.ts",
    find: "if (!options.yes) {",
    replace: 'if (!options.yes && func === "") {',
    caughtBy: inCli("operate", "purge: without --yes only says what it would do, with exit code 2"),
  },
];
