/** The fields of a POST: of its address, and of its body, a form or a JSON object. */
import { hasTooManyChunks, mostChunks } from "../../base/runtime/body-chunks.ts";
import { type Fields, mustBeExact } from "./fields.ts";
import { BadQuery } from "./page.ts";

/** Bytes of a body. */
const mostBytes = 1_048_576;

/** Fields of a form, and names of a JSON object: a form of many tasks has one field for each of them. */
const mostFields = 2_000;

/** A body that has more bytes than are read. */
export class TooLarge extends Error {}

/**
 * A field may stand in the path, in the query or in the body.
 * @throws BadQuery for a field that stands in two of them, or another content type; TooLarge
 */
export async function fieldsOf(request: Request, ofPath: Fields = {}): Promise<Fields> {
  const ofBody = await bodyOf(request);
  const fields = new Map(Object.entries(ofPath));
  for (const source of [formOf(new URL(request.url).search.slice(1)), ofBody])
    for (const [name, value] of Object.entries(source)) {
      if (fields.has(name)) throw new BadQuery(`${name}: expected one value, got several`);
      fields.set(name, value);
    }
  return Object.fromEntries(fields);
}

async function bodyOf(request: Request): Promise<Fields> {
  const text = await textOf(request);
  const type = request.headers.get("content-type") ?? "";
  if (/^application\/(?:[\w.+-]+\+)?json\b/i.test(type)) return objectOf(text);
  if (text !== "" && !/^application\/x-www-form-urlencoded\b/i.test(type))
    throw new BadQuery(`the body is neither a form nor JSON: its content-type is ${JSON.stringify(type)}`);
  return formOf(text);
}

/** Fields of a form that may have several values. */
const lists = ["id", "ids", "filter.status"];

/** Several values of one name are an array. A value that was left empty is `null`. @throws BadQuery */
function formOf(form: string): Fields {
  mustBeFew(form.split("&", mostFields + 1));
  const fields = new Map<string, unknown>();
  for (const [name, text] of new URLSearchParams(form)) {
    const value = text === "" ? null : text;
    const before = fields.get(name);
    // Two texts of arguments would be an array, and so two arguments.
    if (before !== undefined && !lists.includes(name))
      throw new BadQuery(`${name}: expected one value, got several`);
    if (Array.isArray(before)) before.push(value);
    else fields.set(name, before === undefined ? value : [before, value]);
  }
  return Object.fromEntries(fields);
}

async function textOf(request: Request): Promise<string> {
  const tooLarge = new TooLarge(`the body is larger than ${mostBytes} bytes`);
  const tooMany = new BadQuery(`the body comes in more than ${mostChunks} chunks`);
  if (Number(request.headers.get("content-length") ?? 0) > mostBytes) throw tooLarge;
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (size > mostBytes) throw tooLarge;
      chunks.push(chunk);
      if (hasTooManyChunks(chunks.length, size)) throw tooMany;
    }
  } catch (error) {
    // A client that breaks off its request is no error of the app.
    throw error === tooLarge || error === tooMany ? error : new BadQuery("the body was broken off");
  }
  return Buffer.concat(chunks).toString("utf8");
}

function objectOf(text: string): Fields {
  try {
    const read: unknown = text === "" ? {} : JSON.parse(text);
    if (typeof read === "object" && read !== null && !Array.isArray(read)) {
      mustBeFew(Object.keys(read));
      mustBeExact(text, "the body");
      return read as Fields;
    }
  } catch (error) {
    if (error instanceof BadQuery) throw error;
    throw new BadQuery(`the body is not JSON: ${(error as Error).message}`);
  }
  throw new BadQuery("the body is JSON, and no object");
}

/** @throws BadQuery */
function mustBeFew(fields: readonly string[]): void {
  if (fields.length > mostFields) throw new BadQuery(`there are more than ${mostFields} fields`);
}
