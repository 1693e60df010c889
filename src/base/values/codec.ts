/**
 * Encodes values as JSON text and decodes them, the same way for each database.
 *
 * A value that JSON would lose or change is refused with its path. One walk checks the value and builds the text, so
 * that each getter is read once and the checked value is the written one.
 */

import { types } from "node:util";
import { NotSerializableError, PayloadTooLargeError, TaskCorruptError } from "../../errors.ts";
import type { JsonObject } from "../../task.ts";
import { kindOf, show } from "../options/durations.ts";
import { changedNumberIn } from "../text/numbers.ts";
import { keyText, refuseUnreadable, refuseUnreadableArguments } from "./sealed.ts";

/** Deeper values are refused: recursive readers of the row, in any language, have a finite stack. */
export const maxDepth = 100;

/**
 * The arguments as a JSON array without trailing `undefined`.
 * @param func the task's function, which an error names
 * @throws NotSerializableError
 */
export function encodeArgs(args: readonly unknown[], func?: string): string {
  let length = args.length;
  while (length > 0 && args[length - 1] === undefined) length -= 1;
  if (length === 0) return "[]";
  const writer = new Writer("args", func);
  let text = "[";
  for (let i = 0; i < length; i += 1) text += (i === 0 ? "" : ",") + writer.item(i, args[i]);
  return `${text}]`;
}

/**
 * A value as JSON; `undefined` for `undefined`. `name` is the start of the path in an error.
 * @throws NotSerializableError
 */
export function encode(value: unknown, name: string): string | undefined {
  return value === undefined ? undefined : new Writer(name).write(value);
}

/**
 * A plain object as JSON; `{}` for `undefined`.
 * @param func the task's function, which an error names
 * @throws NotSerializableError, also for a value that is not a plain object
 */
export function encodeObject(value: unknown, name: string, func?: string): string {
  if (value === undefined) return "{}";
  if (typeof value !== "object" || value === null || !isPlain(value)) {
    throw new NotSerializableError(name, `expected a plain object, got ${describe(value)}`, ownerOf(func));
  }
  return new Writer(name, func).write(value);
}

const ownerOf = (func: string | undefined) => (func === undefined ? undefined : `task "${func}"`);

/** @throws PayloadTooLargeError when the texts take more than `limit` bytes of UTF-8 together */
export function checkSize(what: string, limit: number, ...texts: readonly string[]): void {
  let length = 0;
  for (const text of texts) length += text.length;
  // A UTF-16 unit takes at most 3 bytes in UTF-8, so short texts need no count.
  if (length * 3 <= limit) return;
  let size = 0;
  for (const text of texts) size += Buffer.byteLength(text);
  if (size > limit) throw new PayloadTooLargeError(what, size, limit);
}

/** @throws TaskCorruptError; as `refuseUnreadable` */
export function decodeArgs(text: string): unknown[] {
  if (text === "[]") return [];
  refuseUnreadableArguments(text, "args");
  const value = decode(text, "args");
  if (!Array.isArray(value))
    throw new TaskCorruptError("args", `expected a JSON array, got ${describe(value)}`);
  return value;
}

/** @throws TaskCorruptError */
export function decodeObject(text: string, column: string): JsonObject {
  if (text === "{}") return {};
  const value = decode(text, column);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TaskCorruptError(column, `expected a JSON object, got ${describe(value)}`);
  }
  return value as JsonObject;
}

/** @throws TaskCorruptError; as `refuseUnreadable` */
export function decode(text: string, column: string): unknown {
  refuseUnreadable(text, column);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new TaskCorruptError(column, (error as Error).message);
  }
  // Another program may have written a 64-bit id.
  const changed = changedNumberIn(text);
  if (changed !== undefined)
    throw new TaskCorruptError(column, `JavaScript has no number ${changed}: write it as a string`);
  return value;
}

/** Walks over one value and builds its JSON. Keeps the current path, to find cycles and for the path in an error. */
class Writer {
  readonly #name: string;
  readonly #func: string | undefined;
  readonly #inside: object[] = [];
  readonly #keys: (string | number)[] = [];

  constructor(name: string, func?: string) {
    this.#name = name;
    this.#func = func;
  }

  write(value: unknown): string {
    switch (typeof value) {
      case "string":
        return JSON.stringify(value);
      case "number":
        return this.#number(value);
      case "boolean":
        return value ? "true" : "false";
      case "object":
        return value === null ? "null" : this.#object(value);
      default:
        return this.#refuseKind(value);
    }
  }

  /** Writes the value under this key of the current object or array. */
  item(key: string | number, value: unknown): string {
    this.#keys.push(key);
    const text = this.write(value);
    this.#keys.pop();
    return text;
  }

  #number(value: number): string {
    if (!Number.isFinite(value)) return this.#refuse(`${value} cannot be kept as JSON`);
    return Object.is(value, -0) ? "-0" : String(value);
  }

  #object(value: object): string {
    if (this.#inside.includes(value)) return this.#refuse("a cycle: it contains itself");
    if (this.#inside.length >= maxDepth) return this.#refuse(`more than ${maxDepth} levels deep`);
    this.#inside.push(value);
    const text = this.#isArray(value) ? this.#array(value) : this.#plain(value);
    this.#inside.pop();
    return text;
  }

  #array(array: unknown[]): string {
    if (!isPlainArray(array)) return this.#refuseKind(array);
    let text = "[";
    for (let i = 0; i < array.length; i += 1) text += (i === 0 ? "" : ",") + this.item(i, array[i]);
    // JSON would drop named properties; they come after the indexes. Holes are refused above: they read as undefined.
    const keys = Object.keys(array);
    const last = keys.at(-1);
    if (last !== undefined && !isIndex(last, array.length)) {
      this.#keys.push(keys.find((key) => !isIndex(key, array.length)) ?? last);
      return this.#refuse("a named property of an array cannot be kept as JSON");
    }
    this.#refuseSymbols(array);
    return `${text}]`;
  }

  #plain(object: object): string {
    if (!isPlain(object)) return this.#refuseKind(object);
    let text = "";
    for (const key of Object.keys(object)) {
      const value = (object as JsonObject)[key];
      if (value !== undefined) text += `${text === "" ? "" : ","}${keyText(key)}:${this.item(key, value)}`;
    }
    this.#refuseSymbols(object);
    // A Date or Map whose prototype was replaced looks plain, but its content is not in its keys.
    if (text === "" && hasInternalSlots(object)) return this.#refuseKind(object);
    return `{${text}}`;
  }

  /** `Array.isArray` throws for a proxy that was revoked. */
  #isArray(value: object): value is unknown[] {
    try {
      return Array.isArray(value);
    } catch {
      return this.#refuse("a revoked Proxy cannot be kept as JSON");
    }
  }

  #refuseSymbols(value: object): void {
    const symbols = Object.getOwnPropertySymbols(value);
    if (symbols.length > 0) this.#refuse(`the key ${show(symbols[0])} cannot be kept as JSON`);
  }

  #refuseKind(value: unknown): never {
    return this.#refuse(`${describe(value)} cannot be kept as JSON: pass ${instead(value)}`);
  }

  #refuse(why: string): never {
    const path = this.#name + this.#keys.map(pathStep).join("");
    throw new NotSerializableError(path, why, ownerOf(this.#func));
  }
}

/** Whether it is an object literal or `Object.create(null)`, of any realm; not an instance of a class. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype) return true;
  // The Object.prototype of another realm, and no other object without a prototype.
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, "isPrototypeOf");
}

/** Whether it is a built-in whose content is in internal slots, not in its keys. */
function hasInternalSlots(value: object): boolean {
  return (
    types.isDate(value) ||
    types.isMap(value) ||
    types.isSet(value) ||
    types.isBoxedPrimitive(value) ||
    types.isRegExp(value) ||
    types.isNativeError(value)
  );
}

function isIndex(key: string, length: number): boolean {
  return /^(0|[1-9]\d*)$/.test(key) && Number(key) < length;
}

/** Whether it is an array of any realm, and not of a subclass: only Array.prototype is itself an array. */
function isPlainArray(value: unknown[]): boolean {
  return Array.isArray(Object.getPrototypeOf(value));
}

function describe(value: unknown): string {
  if (typeof value === "function") return `a ${show(value)}`;
  if (typeof value === "bigint") return `the BigInt ${show(value)}`;
  if (typeof value === "symbol") return show(value);
  if (typeof value !== "object" || value === null)
    return value === undefined ? "undefined" : `the ${typeof value} ${show(value)}`;
  return !types.isProxy(value) && Array.isArray(value) ? "an array" : withArticle(kindOf(value));
}

/** A name such as Uint8Array, URL or User begins with a vowel only for the eye. */
const withArticle = (kind: string): string => `${/^(?:[aeio]|u[np](?!i))/i.test(kind) ? "an" : "a"} ${kind}`;

/** What the caller may pass for a value that JSON does not have. */
function instead(value: unknown): string {
  if (value === undefined) return "null, or leave it out";
  if (typeof value === "bigint") return "a string of its digits";
  if (typeof value === "function") return "the data that it needs, and import it where the task runs";
  if (typeof value === "symbol") return "a string";
  if (types.isDate(value)) return "its toISOString()";
  if (types.isMap(value)) return "Object.fromEntries(map), or the array [...map]";
  if (types.isSet(value)) return "the array [...set]";
  if (types.isNativeError(value)) return "its message";
  if (types.isPromise(value)) return "the value that it resolves with: await it first";
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value))
    return "a string of it, for example in base64";
  return "a plain object with the fields that the task needs";
}

/** One step of the path in an error: `[1]`, `.name` or `["odd name"]`. */
export function pathStep(key: string | number): string {
  if (typeof key === "number") return `[${key}]`;
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}
