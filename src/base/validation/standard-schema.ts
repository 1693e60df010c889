/**
 * The interface that schema libraries share (https://standardschema.dev), as far as dbq needs it. These are types only: a
 * library's own types fit them, so dbq depends on no library.
 */
import { wrong } from "../options/validators.ts";

/** A schema of zod, valibot, arktype or any other library that follows Standard Schema. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    /** The version of the standard. */
    readonly version: 1;
    /** The name of the library. */
    readonly vendor: string;
    /** Judges any value. May be asynchronous. */
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    /** Only in types: nothing is there at run time. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** The answer of a schema about a value: the value that it returns for it, or the issues that it found. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One thing that is wrong, as a library says it. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What a schema takes. */
export type InputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["input"];

/** What a schema makes of it. */
export type OutputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"];

/** Reads an option that takes a schema, which may be a function, as the schemas of arktype are. @throws TypeError for other values */
export function readSchema(value: unknown, name: string): StandardSchema {
  const { version, validate } = standardOf(value) ?? {};
  if (version === 1 && typeof validate === "function") return value as StandardSchema;
  throw wrong(name, "a Standard Schema, such as one of zod, valibot or arktype", value);
}

function standardOf(value: unknown): { version?: unknown; validate?: unknown } | undefined {
  const holdsProperties = typeof value === "function" || (typeof value === "object" && value !== null);
  if (!holdsProperties) return undefined;
  const standard = (value as Partial<Record<"~standard", unknown>>)["~standard"];
  return typeof standard === "object" && standard !== null ? standard : undefined;
}
