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

/** The statement, returning the ids of the rows that it wrote. */
const returning = memoize(({ text, names }: Compiled): Compiled => ({ text: `${text} returning id`, names }));

/** The same, with one NOTIFY for all rows. */
const notifying = memoize(
  ({ text, names }: Compiled): Compiled => ({
    text: `${text} returning id, (${notifyText(names.length + 1)})`,
    names: [...names, "payload"],
  }),
);

const inserting = (payload: string | undefined) => (payload === undefined ? returning : notifying);

export const postgresSteps: ServerSteps = {
  compiler,
  failureOf,
  isOneInsert: () => true,
  id: async (queryable, query, params, payload) =>
    integersIn(
      await execute(queryable, inserting(payload)(compiler.compile(query)), { ...params, payload }),
    )[0],
  ids: async (queryable, query, params, payload) => {
    const insert = inserting(payload)(compiler.compileMany(query));
    return integersIn(await execute(queryable, insert, { items: listOf(params), payload }));
  },
  changes: async (queryable, query, params) => {
    const answer = await execute(queryable, returning(compiler.compileMany(query)), {
      items: listOf(params),
    });
    const changed = new Set(integersIn(answer));
    return params.map(({ id }) => changed.has(id as number));
  },
};
