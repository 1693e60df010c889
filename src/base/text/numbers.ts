/** Numbers of a JSON text that JavaScript would change, found without parsing it. */
import { endOfString } from "./levels.ts";

/** Such a number has at least 16 digits in a row, or an exponent of at least three digits. */
const mayChange = /\d{16}|[eE]\+?\d{3}/;

/** Undefined: `JSON.parse` reads each number of this JSON as it is written. */
export function changedNumberIn(json: string): string | undefined {
  if (!mayChange.test(json)) return undefined;
  // No expression for a whole string: one of several million characters would need more stack than there is.
  const numberOrQuote = /"|-?\d[\d.eE+-]*/g;
  for (let found = numberOrQuote.exec(json); found !== null; found = numberOrQuote.exec(json)) {
    const [token] = found;
    if (token === '"') numberOrQuote.lastIndex = endOfString(json, found.index) + 1;
    else if (!isExact(token)) return token;
  }
  return undefined;
}

/**
 * Whether JavaScript reads the token as the same number. A fraction is read as the nearest double, as in any language.
 */
function isExact(token: string): boolean {
  const value = Number(token);
  if (!Number.isFinite(value)) return false;
  // JavaScript writes 2^63 as 9223372036854776000, the shortest text that is read as the same number.
  return !/^-?\d+$/.test(token) || String(value) === token || BigInt(value) === BigInt(token);
}
