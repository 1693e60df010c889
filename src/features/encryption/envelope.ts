/**
 * One encrypted value, by AES-256-GCM: `{"dbq:sealed":"1:KEY:DATA"}`, in which DATA is base64 of the nonce, the ciphertext and the tag.
 * It opens only in the place that it was sealed for: its column and its row are its associated data.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import type { KeptKey } from "../../base/options/encryption.ts";
import { isSealed, sealedContent, sealedText } from "../../base/values/sealed.ts";

/** Where a value stands: nowhere else it opens. */
export interface Place {
  /** Such as `dbq_tasks.result`. */
  column: string;
  /** What names the row: the id of its task, or a name. */
  row: string | number;
}

const algorithm = "aes-256-gcm";
const [nonceBytes, tagBytes] = [12, 16];
const version = "1";

/** `after`: the task whose result is to follow, in a chain. */
const headerOf = (keyId: string, after: number | undefined) =>
  after === undefined ? `${version}:${keyId}` : `${version}:${keyId}:${after}`;

/**
 * Memory for the bytes of one value at a time, used again for the next one: buffers of their own would be a third of the cost, most of
 * it for their collection. Nothing here waits.
 */
class Scratch {
  #memory = Buffer.allocUnsafeSlow(4_096);

  /** So many bytes, with any content. */
  of(bytes: number): Buffer {
    if (bytes > this.#memory.length) {
      const memory = Buffer.allocUnsafeSlow(bytes * 2);
      // A large one is not kept.
      if (bytes > mostKept) return memory.subarray(0, bytes);
      this.#memory = memory;
    }
    return this.#memory.subarray(0, bytes);
  }
}

const mostKept = 65_536;
const [values, places] = [new Scratch(), new Scratch()];

/** No header and no column has a NUL, so that no two places give the same bytes. */
function associated(header: string, { column, row }: Place): Buffer {
  const text = `${header}\0${column}\0${row}`;
  const bytes = places.of(text.length * 3);
  return bytes.subarray(0, bytes.write(text, "utf8"));
}

/** Random bytes for many nonces: to ask for 12 of them takes as long as to ask for 6,000. */
let nonces = Buffer.alloc(0);

function newNonce(): Uint8Array {
  if (nonces.length < nonceBytes) nonces = randomBytes(nonceBytes * 512);
  const nonce = nonces.subarray(0, nonceBytes);
  nonces = nonces.subarray(nonceBytes);
  return nonce;
}

/** @param nonce only for tests: a nonce must never be used twice with a key */
export function seal(
  text: string,
  { id, key }: KeptKey,
  place: Place,
  after?: number,
  nonce: Uint8Array = newNonce(),
): string {
  const header = headerOf(id, after);
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(associated(header, place));
  // In this mode the last part is always empty.
  const sealed = cipher.update(text, "utf8");
  cipher.final();
  const data = values.of(nonceBytes + sealed.length + tagBytes);
  data.set(nonce);
  data.set(sealed, nonceBytes);
  data.set(cipher.getAuthTag(), nonceBytes + sealed.length);
  return sealedText(`${header}:${data.toString("base64")}`);
}

/** `missing`: the key is not there. `broken`: the value is not what was sealed for this place. */
export type Opened = { text: string; keyId: string; after: number | undefined } | "missing" | "broken";

/** Undefined: the text is not sealed. */
export function open(text: string, keys: ReadonlyMap<string, KeptKey>, place: Place): Opened | undefined {
  if (!isSealed(text)) return undefined;
  const content = sealedContent(text) ?? "";
  const [, header, keyId, after] = /^(1:([\w.-]{1,64})(?::(\d{1,16}))?):/.exec(content) ?? [];
  if (header === undefined || keyId === undefined) return "broken";
  const key = keys.get(keyId);
  if (!key) return "missing";
  const opened = decrypted(content.slice(header.length + 1), key, associated(header, place));
  if (opened === undefined) return "broken";
  return { text: opened, keyId, after: after === undefined ? undefined : Number(after) };
}

function decrypted(base64: string, { key }: KeptKey, place: Buffer): string | undefined {
  const data = bytesOf(base64);
  if (data === undefined || data.length < nonceBytes + tagBytes) return undefined;
  const decipher = createDecipheriv(algorithm, key, data.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  });
  decipher.setAAD(place);
  decipher.setAuthTag(data.subarray(-tagBytes));
  try {
    const text = decipher.update(data.subarray(nonceBytes, -tagBytes));
    // It throws unless the tag is right, and gives nothing more.
    decipher.final();
    return text.toString("utf8");
  } catch {
    return undefined;
  }
}

/**
 * Undefined for a text that is no base64 as `seal` writes it. Node reads foreign characters, the alphabet of URLs and stray bits, too:
 * then another text would give the same bytes.
 */
function bytesOf(base64: string): Buffer | undefined {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  const length = (base64.length / 4) * 3 - padding;
  if (!Number.isInteger(length) || length < 0 || base64.includes("-") || base64.includes("_"))
    return undefined;
  const data = values.of(length);
  // Of foreign characters, none gives a byte.
  if (data.write(base64, "base64") !== length) return undefined;
  return base64.endsWith(data.subarray(-(length % 3 || 3)).toString("base64")) ? data : undefined;
}
