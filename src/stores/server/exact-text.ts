/**
 * Text on its way through an app's session, whose character set may lack characters of it: MySQL would store question marks,
 * Postgres other letters. Such text is refused before it is written. ASCII is the same in each set, and is not looked at.
 */
import { DatabaseError, withAnotherTry } from "../../errors.ts";
import type { Queryable } from "./pool.ts";

type Query = Queryable["query"];

/** The name of the session's character set if it would change this text; undefined: the text arrives as it is, or not at all. */
export type CharsetChanging = (query: Query, text: string) => Promise<string | undefined>;

/** Characters of one to four bytes, of which the first are in most sets. */
const probe = "é€漢🌊";

const beyondAscii = /[\u0080-\uffff]/;
const eachBeyondAscii = /[\u{80}-\u{10ffff}]/gu;

/** The connections whose sessions were found to change no text. */
const exact = new WeakSet<object>();

/** `connection`: the driver's own object, where it can be reached. Its session is asked only once. */
export class ExactText {
  readonly #query: Query;
  readonly #changing: CharsetChanging;
  readonly #connection: object;

  constructor(query: Query, changing: CharsetChanging, connection: object = query) {
    this.#query = query;
    this.#changing = changing;
    this.#connection = connection;
  }

  /** Undefined: there is nothing to check. @throws DatabaseError that names the session's character set */
  check(params: readonly unknown[]): Promise<void> | undefined {
    if (exact.has(this.#connection)) return undefined;
    const texts = params.filter((one): one is string => typeof one === "string" && beyondAscii.test(one));
    return texts.length === 0 ? undefined : this.#check(texts);
  }

  async #check(texts: readonly string[]): Promise<void> {
    if ((await this.#changing(this.#query, probe)) === undefined) {
      exact.add(this.#connection);
      return;
    }
    const characters = [...new Set(texts.flatMap((text) => text.match(eachBeyondAscii) ?? []))];
    const charset = await this.#changing(this.#query, characters.join(""));
    if (charset !== undefined) throw refusal(charset, characters);
  }
}

function refusal(charset: string, characters: readonly string[]): DatabaseError {
  const shown = characters.slice(0, 10).join("");
  const problem = `the session of this connection has the character set ${charset}, which would change some of "${shown}"`;
  const advice = "nothing was written: let the app's connections use utf8mb4 on MySQL, UTF8 on Postgres";
  return withAnotherTry(new DatabaseError(`${problem}; ${advice}`), "fails");
}
