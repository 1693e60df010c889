/** Validators of the options that say where the function of a task runs: its module, and its memory. */
import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type Reader, wrong } from "./validators.ts";

/** A number of bytes, or a text such as `"512MB"` or `"2GB"`, in units of 1,024. */
export type MemorySize = number | `${number}${"MB" | "GB"}`;

const mebibyte = 1_048_576;
const units = { MB: mebibyte, GB: 1_024 * mebibyte };

/** Bytes. Node cannot start with less. */
const least = 16 * mebibyte;

/** Bytes, from 16 MiB. */
export const memorySize: Reader<number> = (value, name) => {
  const bytes = typeof value === "number" ? value : bytesOf(String(value));
  if (Number.isSafeInteger(bytes) && bytes >= least) return bytes;
  throw wrong(name, 'a size of at least 16 MiB, such as "512MB", "2GB" or a number of bytes', value);
};

function bytesOf(text: string): number {
  const [, count, unit] = /^(\d+(?:\.\d+)?) ?(MB|GB)$/.exec(text) ?? [];
  return count === undefined ? Number.NaN : Math.floor(Number(count) * units[unit as keyof typeof units]);
}

/** The URL of a file that is there: from a `file:` URL or an absolute path. */
export const moduleUrl: Reader<string> = (value, name) => {
  const url = fileUrl(value);
  if (url !== undefined && existsSync(fileURLToPath(url))) return url.href;
  const there = url === undefined ? "a file: URL or an absolute path" : "a file that is there";
  throw wrong(name, `${there}: import.meta.url, or __filename in CommonJS`, value);
};

function fileUrl(value: unknown): URL | undefined {
  if (typeof value === "string" && isAbsolute(value)) return pathToFileURL(value);
  const text = value instanceof URL ? value.href : value;
  if (typeof text !== "string" || !text.startsWith("file:") || !URL.canParse(text)) return undefined;
  return new URL(text);
}
