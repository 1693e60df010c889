/** The core names no feature: no identifier and no file name of it has a word of one, but for what is listed here. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { readTexts } from "../../scripts/sources.mjs";
import { kindsOf } from "../../src/stores/sql/columns.ts";

const words =
  /^(?:limits|groups?|rates?|throttled?|schedules?|drains?|agents?|sessions?|steer(?:ed)?|partitions?|workflows?)$/;

/**
 * What the core calls by such a word, and why. `limit`, `slot` and `step` are words of the core too: at most so many rows, the places
 * of a worker, the steps of a program.
 */
const exceptions: readonly { why: string; names: RegExp; files?: RegExp }[] = [
  { why: "several that belong together", names: /^(?:GroupCommit|groupCommit|groupBy|inGroups|groups?)$/ },
  {
    why: "the session of a database's connection",
    names: /[sS]ession/,
    files: /^src\/(?:worker|stores\/sql|store\.ts)/,
  },
  {
    why: "what currentTask() shows, and how a function ends its attempt, are the public face of a task",
    names: /^(?:schedule|groupOf|TaskGroup|GroupResult|[Tt]hrottle\w*|ThrottledTask|isThrottledWith)$/,
    files: /^src\/(?:worker|queue\/enqueue|store\.ts)/,
  },
  { why: "what a dialect says for the indexes of a feature", names: /[sS]teered/, files: /dialect\.ts$/ },
  {
    why: "a worker's id says that a drain has the row",
    names: /^(?:isOfDrain|stopsGroup)$/,
    files: /^src\/stores\/sql/,
  },
];

/** The columns of dbq's tables are the core's to write, as SQL and as fields. */
const columns = new Set(
  Object.entries(kindsOf).flatMap(([table, kinds]) =>
    [table, ...Object.keys(kinds)].flatMap((name) => [name, fieldOf(name)]),
  ),
);

function fieldOf(column: string): string {
  return column.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

const root = join(import.meta.dirname, "../..");
const core = readTexts(root, ["src"]).filter(({ path }) =>
  /^src\/(?:queue|worker|stores\/sql)\/.*\.ts$|^src\/store\.ts$/.test(path),
);

/** The names in code. Comments and strings are left out. */
function namesIn(text: string): Set<string> {
  const code = text
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/(^|\s)\/\/.*$/gm, "")
    .replace(/^import[^;]*;/gm, "")
    .replace(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, '""');
  return new Set(code.match(/[A-Za-z_$][\w$]*/g));
}

const wordsOf = (name: string) =>
  name
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[ _$-]+/);

const isOfFeature = (name: string) => wordsOf(name).some((word) => words.test(word));

test("no name in the core is a feature's", () => {
  expect(core.length).toBeGreaterThan(90);
  const used = new Set<string>();
  const found = core.flatMap(({ path, text }) =>
    [...namesIn(text)].filter(isOfFeature).flatMap((name) => {
      if (columns.has(name)) return [];
      const exception = exceptions.find(
        ({ names, files }) => names.test(name) && (files?.test(path) ?? true),
      );
      if (exception) used.add(exception.why);
      return exception ? [] : [`${path}: ${name}`];
    }),
  );
  expect(found).toEqual([]);
  expect([...used].sort()).toEqual(exceptions.map(({ why }) => why).sort());
});

test("no file of the core is named after a feature", () => {
  const named = core
    .map(({ path }) => path)
    .filter((path) => isOfFeature((path.split("/").at(-1) as string).replace(".ts", "")));
  expect(named).toEqual(["src/queue/group-commit.ts", "src/worker/task-group.ts", "src/worker/throttle.ts"]);
});
