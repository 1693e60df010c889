/** Finds Markdown files, and reads them in any size and encoding. */
import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Document } from "./plan.ts";

/** Bytes that are read of a document: a longer page is hard to read, and would need more memory. */
export const readLimit = 2 * 1_024 * 1_024;

/**
 * Every `*.md` under `folder`, sorted by path. Follows links to files, but not links to folders, which may form a cycle.
 * Calls `onSkipped` for each folder that cannot be read.
 */
export async function findDocuments(
  folder: string,
  onSkipped: (path: string, error: unknown) => void,
): Promise<Document[]> {
  const paths: string[] = [];
  for await (const path of markdownUnder(folder, "", onSkipped)) paths.push(path);
  paths.sort();
  return paths.map((path, i) => ({ number: i + 1, path, page: pageName(i + 1, path) }));
}

async function* markdownUnder(
  folder: string,
  inside: string,
  onSkipped: (path: string, error: unknown) => void,
): AsyncGenerator<string> {
  const here = join(folder, inside);
  const entries = await readdir(here, { withFileTypes: true }).catch((error) => {
    onSkipped(here, error);
    return [];
  });
  for (const entry of entries) {
    const path = inside === "" ? entry.name : `${inside}/${entry.name}`;
    if (entry.isDirectory()) yield* markdownUnder(folder, path, onSkipped);
    else if (/\.md$/i.test(entry.name) && (await isFile(join(folder, path), entry))) yield path;
  }
}

async function isFile(
  path: string,
  entry: { isFile(): boolean; isSymbolicLink(): boolean },
): Promise<boolean> {
  if (!entry.isSymbolicLink()) return entry.isFile();
  return await stat(path).then(
    (target) => target.isFile(),
    () => false,
  );
}

/** Unique by its number, and short: a path may be longer than a file name may be, and have any character. */
function pageName(number: number, path: string): string {
  const readable = path
    .replace(/\.md$/i, "")
    .replace(/[^a-z0-9]+/gi, "-")
    .replace(/^-|-$/g, "")
    .toLowerCase();
  return `${number}-${readable.slice(-60).replace(/^-/, "")}.html`.replace("-.html", ".html");
}

/** The text of a document. `cut`: the document is longer than `readLimit`. */
export async function readDocument(path: string): Promise<{ text: string; cut: boolean }> {
  await using file = await open(path);
  const { size } = await file.stat();
  const { bytesRead, buffer } = await file.read(Buffer.alloc(Math.min(size, readLimit)), { position: 0 });
  const cut = size > readLimit;
  return { text: decode(buffer.subarray(0, bytesRead), cut), cut };
}

/** Decodes by the byte order mark, else as UTF-8, else as windows-1252, in which any bytes are valid. */
function decode(bytes: Uint8Array, cut: boolean): string {
  // `stream`: a cut text may end in the middle of a character.
  const read = (encoding: string, fatal: boolean) =>
    new TextDecoder(encoding, { fatal }).decode(bytes, { stream: cut });
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return read("utf-16le", false);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return read("utf-16be", false);
  try {
    return read("utf-8", true);
  } catch {
    return read("windows-1252", false);
  }
}
