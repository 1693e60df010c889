/** The option `encryption` of a queue: its type and its validation. */
import { createSecretKey, type KeyObject } from "node:crypto";
import { boolean, labels, type Reader, readOptions, wrong } from "./validators.ts";

/** A key for AES-256-GCM. */
export interface EncryptionKey {
  /** Stands in clear beside each value: 1 to 64 letters, digits, dots, hyphens and underscores, such as `"2026-11"`. */
  id: string;
  /** 32 random bytes, such as `Buffer.from(process.env.QUEUE_KEY, "base64")`. */
  key: Uint8Array;
}

/** Option `encryption` of `openQueue`. */
export interface EncryptionOptions {
  /** The first one encrypts; all decrypt. */
  keys: readonly EncryptionKey[];
  /** The functions whose tasks are encrypted. @default all */
  functions?: readonly string[];
  /**
   * Whether tasks of these functions whose arguments or steps are in clear are refused: they fail for good, with
   * `DBQ_NOT_ENCRYPTED`. @default false
   */
  required?: boolean;
}

/** A key as dbq keeps it: node takes a `KeyObject` in less time than bytes, and prints none. */
export interface KeptKey {
  id: string;
  key: KeyObject;
}

export interface ReadEncryptionOptions {
  keys: readonly KeptKey[];
  /** Undefined: all. */
  functions?: ReadonlySet<string> | undefined;
  required: boolean;
}

const keyBytes = 32;

const keyId: Reader<string> = (value, name) => {
  if (typeof value === "string" && /^[\w.-]{1,64}$/.test(value)) return value;
  throw wrong(name, "1 to 64 letters, digits, dots, hyphens and underscores", value);
};

/** An error never shows the key, or what was given in its place. */
const keyData: Reader<KeyObject> = (value, name) => {
  if (!(value instanceof Uint8Array))
    throw new TypeError(
      `${name}: expected ${keyBytes} bytes in a Buffer or Uint8Array, got ${typeof value === "string" ? "a string: decode it first" : typeof value}`,
    );
  if (value.byteLength !== keyBytes)
    throw new TypeError(`${name}: expected ${keyBytes} bytes for AES-256, got ${value.byteLength}`);
  // It has a copy: the caller may overwrite its own.
  return createSecretKey(value);
};

function keys(value: unknown, name: string): readonly KeptKey[] {
  if (!Array.isArray(value) || value.length === 0)
    throw new TypeError(`${name}: expected an array of at least one key, { id, key }`);
  const read = value.map((one, i) => {
    const owner = `${name}[${i}]`;
    const { id, key } = readOptions<KeptKey>(one, owner, { id: keyId, key: keyData });
    if (id === undefined || key === undefined) throw new TypeError(`${owner}: expected both id and key`);
    return { id, key };
  });
  const twice = read.find(({ id }, i) => read.findIndex((other) => other.id === id) < i);
  if (twice) throw new TypeError(`${name}: two keys have the id ${JSON.stringify(twice.id)}`);
  return read;
}

/** @throws TypeError */
export function readEncryptionOptions(value: unknown, name: string): ReadEncryptionOptions {
  const read = readOptions<ReadEncryptionOptions>(value, name, {
    keys,
    functions: (given, owner) => new Set(labels(given, owner)),
    required: boolean,
  });
  if (!read.keys) throw new TypeError(`${name}: expected keys, such as { keys: [{ id: "2026-11", key }] }`);
  return { required: false, ...read, keys: read.keys };
}

/** The environment variable from which commands, and `openQueue()` without arguments, read keys. */
const keysVariable = "DBQ_ENCRYPTION_KEYS";

/**
 * Reads `id:base64,id:base64,…`; undefined: the variable is not set, or empty.
 * @throws TypeError, which never shows a key
 */
export function encryptionFrom(environment: Readonly<Record<string, string | undefined>>) {
  const text = environment[keysVariable]?.trim();
  if (!text) return undefined;
  const keys = text.split(",").map((part, i): EncryptionKey => {
    const [, id, base64 = ""] = /^\s*([\w.-]+):([A-Za-z0-9+/_-]+={0,2})\s*$/.exec(part) ?? [];
    const key = Buffer.from(base64, "base64");
    if (id === undefined || key.length !== keyBytes)
      throw new TypeError(
        `${keysVariable}: key ${i + 1}: expected an id, a colon, and ${keyBytes} bytes as base64, as "2026-11:$(openssl rand -base64 ${keyBytes})" gives them`,
      );
    return { id, key };
  });
  return { keys } satisfies EncryptionOptions;
}
