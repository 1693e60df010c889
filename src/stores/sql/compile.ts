/** Compiles statements to text, once in a process: compiling costs several times what running does (19k against 63k inserts a second). */
import { type Query, type SQL, sql } from "drizzle-orm/sql/sql";
import { placeholderName, queryConfig } from "../../base/runtime/drizzle-internals.ts";
import { memoize } from "../../base/runtime/memoize.ts";
import { kindsOf } from "./columns.ts";
import type { Dialect, Params } from "./dialect.ts";
import { itemColumns, itemOf, oneRow, type Statement } from "./statements.ts";

/** A parameter that the statement itself computes, at each use. */
export class Computed {
  readonly value: () => unknown;

  constructor(value: () => unknown) {
    this.value = value;
  }
}

/** The text of a statement, and the names of its parameters in order. */
export interface Compiled {
  text: string;
  names: readonly (string | Computed)[];
  /** For a change of many rows: the names of the parameters that it reads of each row. */
  columns?: readonly string[];
}

/** How a database writes names and parameters. Drizzle's own dialects know this too, but load all of their query builders. */
export interface Style {
  /** The quote on both sides of a name. */
  quote: string;
  parameter(index: number): string;
  items: Dialect["items"];
  /** The schema of the tables, named in each statement. Undefined: the connection decides. */
  schema?: string | undefined;
}

/** What statements name that a schema holds. Names of indexes and triggers stand without a schema. */
const held = [...Object.keys(kindsOf), "dbq_migrations", "dbq_move", "dbq_move_refuse"];

/** Not a quoted name: those of generated migrations are found by the search path that their transaction sets. */
const unqualified = new RegExp(`(?<![\\w."])(?:${held.join("|")})(?![\\w"])`, "g");

const placeholders = new Proxy({}, { get: (_, name) => sql.placeholder(String(name)) }) as Params;

/** The one parameter of a batch: the list of its items. */
export const itemList = "items";

export class Compiler {
  readonly #style: Parameters<SQL["toQuery"]>[0];
  readonly #items: Dialect["items"];
  readonly #schema: string | undefined;

  constructor({ quote, parameter, items, schema }: Style) {
    this.#items = items;
    this.#schema = schema === undefined ? undefined : `${quote}${schema}${quote}.`;
    this.#style = queryConfig({
      escapeName: (name) => `${quote}${name.replaceAll(quote, quote + quote)}${quote}`,
      escapeParam: parameter,
      escapeString: (text) => `'${text.replaceAll("'", "''")}'`,
    });
  }

  /** Text and values, for one use. */
  once(query: SQL): Query {
    const written = query.toQuery(this.#style);
    const schema = this.#schema;
    if (schema === undefined) return written;
    return { ...written, sql: written.sql.replace(unqualified, (name) => schema + name) };
  }

  /** Text with placeholders, for any number of uses. */
  readonly compile = memoize((statement: Statement) => this.#named(statement(placeholders)));

  /** Turns a change of one row into a batch: its parameters become the columns of a list, which is its one parameter. */
  readonly compileMany = memoize((statement: Statement) => {
    if (!this.#items) throw new TypeError("this database has no changes of many rows");
    const { query, columns } = overItems(statement, this.#items);
    return { ...this.#named(query), columns };
  });

  #named(query: SQL): Compiled {
    const { sql: text, params } = this.once(query);
    const names = params.map((param) => {
      const name = placeholderName(param);
      if (name !== undefined) return name;
      if (param instanceof Computed) return param;
      throw new TypeError(
        `a statement has the literal parameter ${String(param)}: write it into the text, or name it`,
      );
    });
    return { text, names };
  }
}

function overItems(statement: Statement, items: NonNullable<Dialect["items"]>) {
  const used = new Set<string>();
  const columns = new Proxy(
    {},
    {
      get: (_, name) => {
        used.add(String(name));
        return itemOf(String(name));
      },
    },
  ) as Params;
  statement(columns, oneRow);
  const query = statement(columns, items(sql`${sql.placeholder(itemList)}`, itemColumns([...used])));
  return { query, columns: [...used] };
}
