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

/** A value that differs between two texts; `null`: it is not there. */
export interface Difference {
  /** Where it stands, such as `[0].to`. */
  path: string;
  before: string | null;
  after: string | null;
}

/** What differs between two JSON texts, value by value, `most` at most; undefined: one of them is not JSON. */
export function differences(before: string, after: string, most: number): Difference[] | undefined {
  if (!isJson(before) || !isJson(after)) return undefined;
  const [a, b] = [leavesOf(before), leavesOf(after)];
  const found: Difference[] = [];
  for (const path of new Set([...a.keys(), ...b.keys()])) {
    if (a.get(path) === b.get(path)) continue;
    if (found.length === most) break;
    found.push({ path, before: a.get(path) ?? null, after: b.get(path) ?? null });
  }
  return found;
}

/** Each value that holds no other one, by its path. Numbers stay as they are written. */
function leavesOf(text: string): Map<string, string> {
  const leaves = new Map<string, string>();
  const all = text.match(tokens) ?? [];
  let at = 0;
  const read = (path: string): void => {
    const token = all[at] ?? "";
    at += 1;
    if (token !== "{" && token !== "[") {
      leaves.set(path, token);
      return;
    }
    const end = token === "{" ? "}" : "]";
    if (all[at] === end) leaves.set(path, `${token}${end}`);
    for (let i = 0; all[at] !== end; i += 1) {
      if (all[at] === ",") at += 1;
      if (token === "[") read(`${path}[${i}]`);
      else {
        const key = JSON.parse(all[at] ?? '""') as string;
        at += 2;
        read(/^[\w$]+$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`);
      }
    }
    at += 1;
  };
  read("");
  return leaves;
}
