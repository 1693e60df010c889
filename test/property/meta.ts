/** Which tasks a meta filter must find: those whose meta has this value at this key. The same for each database. */
import fc from "fast-check";
import { expect, onTestFinished } from "vitest";
import { type Queue, type Task, task } from "../../src/index.ts";
import { temporaryQueue } from "../support/queue.ts";
import { seedOf } from "../support/random.ts";
import type { DatabaseKind } from "./databases.ts";
import { key, number, text, wellFormed } from "./json.ts";

const noted = task("noted", () => undefined);

type Scalar = string | number | boolean | null;
type Entry = [name: string, value: Scalar];

/** Values that are easily confused. */
const lookalikes = fc.constantFrom<Scalar[]>(
  ...[
    ["1", 1],
    ["true", true],
    ["null", null],
    ["", null, false, 0],
    [0, -0],
    ["10.5", 10.5],
    ["[]", "{}"],
  ],
  ...[
    ["a", "A", "a "],
    ["\u00e9", "e\u0301", "e"],
    ["\ufffd", "\u{1f600}", "?"],
    ["%", "_", "\\", "$", "*"],
  ],
  ...[
    [0.1 + 0.2, 0.3],
    [2 ** 53, 2 ** 53 - 1],
    [1e21, 1e22],
    [5e-324, 0],
    [1.5e300, 1e300],
    [1, 1.5, -1],
  ],
);

const values = fc
  .tuple(lookalikes, fc.array(fc.oneof(text, number), { maxLength: 2 }))
  .map((all) => all.flat());

const names = fc.oneof(key, fc.constantFrom("k", "K", "k ", "$", "$.k", '"', "'", "*", "[0]", "\u{1f600}"));

/** Postgres takes a backslash before a `u` for an escape: see meta.test.ts. */
const plain = (any: string) => wellFormed(any).replaceAll("\0", "").replaceAll("\\u", "u");

/**
 * Text that servers can compare: no NUL, no lone surrogate. MariaDB finds no key that begins with a hyphen (it rejects
 * `$."-a"`), and none with some control characters (it writes them as \u000E, dbq as \u000e).
 */
const comparable = ([name, value]: Entry): Entry => [
  plain(name).replace(/\p{Cc}|^-+/gu, ""),
  typeof value === "string" ? plain(value) : value,
];

/** Metas of few keys and values, so that the same ones occur again in other places. */
const metasOf = (change: (entry: Entry) => Entry) =>
  fc
    .tuple(fc.array(names, { minLength: 1, maxLength: 2 }), values)
    .map(([some, all]) => some.flatMap((name) => all.map((value) => change([name, value]))))
    .chain((entries) => {
      const meta = fc.array(fc.constantFrom(...entries), { maxLength: 2 }).map(Object.fromEntries);
      return fc.tuple(fc.constant(entries), fc.array(meta, { minLength: 4, maxLength: 8 }));
    });

const has = (meta: object, name: string, value: Scalar) =>
  Object.hasOwn(meta, name) && (meta as Record<string, Scalar>)[name] === value;

async function findsExactly(
  queue: Queue,
  all: readonly Task[],
  filter: Record<string, Scalar>,
): Promise<void> {
  const expected = all.filter(({ meta }) =>
    Object.entries(filter).every(([name, value]) => has(meta, name, value)),
  );
  const found = await queue.listTasks({ meta: filter });
  const shown = (tasks: readonly Task[]) => tasks.map(({ id, meta }) => [id, meta]);
  expect(shown(found), JSON.stringify(filter)).toEqual(shown(expected));
}

/** Tries this many lists of metas. */
export async function metaFilters({ name, newDatabase }: DatabaseKind, runs: number): Promise<void> {
  const metas = metasOf(name === "SQLite" ? (entry) => entry : comparable);
  const home = await newDatabase();
  onTestFinished(() => home.remove());
  const queue = await temporaryQueue({ synchronous: "normal" }, home.target);
  const property = fc.asyncProperty(metas, async ([entries, each]) => {
    await queue.purgeTasks();
    await queue.enqueueTasks(each.map((meta) => [noted.with({ meta })] as const));
    const all = await queue.listTasks();
    for (const [i, one] of entries.entries()) {
      await findsExactly(queue, all, Object.fromEntries([one]));
      await findsExactly(
        queue,
        all,
        Object.fromEntries([one, entries[(i + 1) % entries.length] as typeof one]),
      );
    }
  });
  await fc.assert(property, { numRuns: runs, seed: seedOf(`filters by meta on ${name}`) });
}
