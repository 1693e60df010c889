/** JSON for people to read, made from its text: numbers beyond 2^53 and the order of keys stay as they are stored. */
import { isJson } from "../../base/text/json.ts";

const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s{}[\]:,"]+/gs;

/** A text that fits in one line stays in one. */
const longestLine = 80;

/** Characters of an indented text: of 64 KB that are nested 97 levels deep, 6 MB would be spaces. */
const longestIndented = 262_144;

/** The same JSON, indented. A text that is not JSON stays as it is, and so does one that would become too long. */
export function indented(text: string): string {
  if (!isJson(text)) return text;
  const all = text.match(tokens) ?? [];
  const line = all.map((token) => (token === "," || token === ":" ? `${token} ` : token)).join("");
  return line.length <= longestLine ? line : (inLines(all) ?? text);
}

/** Whether two texts are the same JSON, however it is spaced. */
export const isSameJson = (a: string, b: string): boolean =>
  a === b || (isJson(a) && isJson(b) && a.match(tokens)?.join("\n") === b.match(tokens)?.join("\n"));

/** A whole number in this JSON that JavaScript would change. */
export const inexactIn = (text: string): string | undefined =>
  text.match(tokens)?.find((token) => /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)));

/** Undefined: it has more than `longestIndented` characters. */
function inLines(all: readonly string[]): string | undefined {
  let [out, depth] = ["", 0];
  const newLine = () => `\n${"  ".repeat(depth)}`;
  for (const [i, token] of all.entries()) {
    const isClosing = token === "}" || token === "]";
    const isEmpty = isClosing && /[{[]/.test(all[i - 1] ?? "");
    if (isClosing) depth -= 1;
    if (isClosing && !isEmpty) out += newLine();
    out += token;
    if (token === ":") out += " ";
    if (token === "{" || token === "[") depth += 1;
    const opens = (token === "{" || token === "[") && !/^[}\]]$/.test(all[i + 1] ?? "");
    if (opens || token === ",") out += newLine();
    if (out.length > longestIndented) return undefined;
  }
  return out;
}
