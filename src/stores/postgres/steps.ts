/** How Postgres runs the steps of an operation that are not one text on every server. */
import { memoize } from "../../base/runtime/memoize.ts";
import { execute, insertedIn, integersIn, listOf, type ServerSteps } from "../server/run.ts";
import { type Compiled, Compiler } from "../sql/compile.ts";
import { failureOf } from "./connection.ts";
import { optimisticDialect } from "./dialect.ts";
import { channelOf, notifyText } from "./listener.ts";

/** The statement, returning the ids of the rows that it wrote. As texts: some drivers of apps round them. */
const returning = memoize(
  ({ text, names }: Compiled): Compiled => ({ text: `${text} returning id::text`, names }),
);

/** The parameter of the NOTIFY: no column has its name. */
const notification = "its notification";

/** The same, with one NOTIFY for all rows. */
const notifyingOn = (channel: string) =>
  memoize(
    ({ text, names }: Compiled): Compiled => ({
      text: `${text} returning id::text, (${notifyText(channel, names.length + 1)})`,
      names: [...names, notification],
    }),
  );

/** @param schema the schema of the tables; undefined: the first that has them in the connection's search path */
export function postgresSteps(schema: string | undefined): ServerSteps {
  const compiler = new Compiler({
    quote: '"',
    parameter: (index) => `$${index + 1}`,
    items: optimisticDialect.items,
    schema,
  });
  const notifying = notifyingOn(channelOf(schema));
  const inserting = (payload: string | undefined) => (payload === undefined ? returning : notifying);
  return {
    compiler,
    failureOf,
    isOneInsert: () => true,
    id: async (queryable, query, params, payload) => {
      const insert = inserting(payload)(compiler.compile(query));
      return insertedIn(await execute(queryable, insert, { ...params, [notification]: payload }))[0];
    },
    ids: async (queryable, query, params, payload) => {
      const many = compiler.compileMany(query);
      const insert = inserting(payload)(many);
      return insertedIn(
        await execute(queryable, insert, { items: listOf(many, params), [notification]: payload }),
      );
    },
    changes: async (queryable, query, params) => {
      const many = compiler.compileMany(query);
      const items = listOf(many, params);
      const changed = new Set(integersIn(await execute(queryable, returning(many), { items })));
      return params.map(({ id }) => changed.has(id as number));
    },
  };
}
