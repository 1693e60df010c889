/** How Postgres runs the steps of an operation that are not one text on every server. */
import { memoize } from "../../base/runtime/memoize.ts";
import { execute, integersIn, listOf, type ServerSteps } from "../server/run.ts";
import { type Compiled, Compiler } from "../sql/compile.ts";
import { failureOf } from "./connection.ts";
import { optimisticDialect } from "./dialect.ts";
import { notifyText } from "./listener.ts";

const compiler = new Compiler({
  quote: '"',
  parameter: (index) => `$${index + 1}`,
  items: optimisticDialect.items,
});

/** With the ids of what it wrote. */
const returning = memoize(({ text, names }: Compiled): Compiled => ({ text: `${text} returning id`, names }));

/** And tells, once for all of them. */
const telling = memoize(
  ({ text, names }: Compiled): Compiled => ({
    text: `${text} returning id, (${notifyText(names.length + 1)})`,
    names: [...names, "note"],
  }),
);

const inserting = (note: string | undefined) => (note === undefined ? returning : telling);

/** A change of many is one statement, which says what it changed. */
export const postgresSteps: ServerSteps = {
  compiler,
  failureOf,
  isOneInsert: () => true,
  id: async (asked, query, params, note) =>
    integersIn(await execute(asked, inserting(note)(compiler.compile(query)), { ...params, note }))[0],
  ids: async (asked, query, params, note) => {
    const insert = inserting(note)(compiler.compileMany(query));
    return integersIn(await execute(asked, insert, { items: listOf(params), note }));
  },
  changes: async (asked, query, params) => {
    const answer = await execute(asked, returning(compiler.compileMany(query)), { items: listOf(params) });
    const changed = new Set(integersIn(answer));
    return params.map(({ id }) => changed.has(id as number));
  },
};
