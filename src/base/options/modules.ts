/** Validators of the options that say where the function of a task runs: its module, and its memory. */
import { statSync } from "node:fs";
import { isAbsolute } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type Reader, wrong } from "./validators.ts";

/** A number of bytes, or a text such as `"512MB"` or `"2GB"`. All units are of 1,024: `MB` is `MiB`. */
export type MemorySize = number | `${number}${"MB" | "GB" | "MiB" | "GiB"}`;

const mebibyte = 1_048_576;
const units = { M: mebibyte, G: 1_024 * mebibyte };

/** Bytes. Node cannot start with less. */
const least = 16 * mebibyte;

/** Bytes, from 16 MiB. */
export const memorySize: Reader<number> = (value, name) => {
  const bytes = typeof value === "number" ? value : bytesOf(String(value));
  if (Number.isSafeInteger(bytes) && bytes >= least) return bytes;
  throw wrong(name, 'a size of at least 16 MiB, such as "512MB", "2GB" or a number of bytes', value);
};

function bytesOf(text: string): number {
  const [, count, unit] = /^(\d+(?:\.\d+)?) ?(M|G)i?B$/.exec(text) ?? [];
  return count === undefined ? Number.NaN : Math.floor(Number(count) * units[unit as keyof typeof units]);
}

/** The URL of a file that is there: from a `file:` URL or an absolute path. */
export const moduleUrl: Reader<string> = (value, name) => {
  const url = fileUrl(value);
  const advice = "import.meta.url, or __filename in CommonJS";
  if (url === undefined) throw wrong(name, `a file: URL or an absolute path: ${advice}`, value);
  const path = fileURLToPath(url);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isFile()) return url.href;
  // Not shortened: its end says which file is meant.
  throw new TypeError(
    `${name}: expected a file that is there: ${advice}, got ${path}${found ? ", which is no file" : ""}`,
  );
};

function fileUrl(value: unknown): URL | undefined {
  if (typeof value === "string" && isAbsolute(value)) return pathToFileURL(value);
  const text = value instanceof URL ? value.href : value;
  if (typeof text !== "string" || !text.startsWith("file:") || !URL.canParse(text)) return undefined;
  return new URL(text);
}
