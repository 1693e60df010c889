/** Checks a value against the part of JSON Schema that `docs/manager-openapi.json` uses. */

export interface Schema {
  $ref?: string;
  type?: string | readonly string[];
  const?: unknown;
  required?: readonly string[];
  properties?: Readonly<Record<string, Schema>>;
  /** False, or what the properties are that have no schema of their own. */
  additionalProperties?: false | Schema;
  items?: Schema;
  oneOf?: readonly Schema[];
  minimum?: number;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
  format?: string;
  description?: string;
}

const known = new Set(
  "$ref type const required properties additionalProperties items oneOf minimum minLength maxLength maxItems format description".split(
    " ",
  ),
);

const typeOf = (value: unknown): string => {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
};

/** What is wrong with the value, each with its path; none: it fits. */
export function misfits(
  schemas: Readonly<Record<string, Schema>>,
  schema: Schema,
  value: unknown,
  path = "$",
): string[] {
  for (const key of Object.keys(schema))
    if (!known.has(key)) return [`${path}: the checker does not know ${key}`];
  if (schema.$ref !== undefined) {
    const name = schema.$ref.replace("#/components/schemas/", "");
    const target = schemas[name];
    return target ? misfits(schemas, target, value, path) : [`${path}: there is no schema ${name}`];
  }
  if (schema.oneOf) {
    const fitting = schema.oneOf.filter((each) => misfits(schemas, each, value, path).length === 0);
    return fitting.length === 1
      ? []
      : [`${path}: fits ${fitting.length} of ${schema.oneOf.length} alternatives`];
  }
  if (schema.const !== undefined && value !== schema.const)
    return [`${path}: is not ${String(schema.const)}`];
  if (schema.type !== undefined) {
    const types = [schema.type].flat();
    const actual = typeOf(value);
    if (!types.includes(actual) && !(actual === "integer" && types.includes("number")))
      return [`${path}: ${actual} is no ${types.join(" or ")}`];
  }
  return [...limits(schema, value, path), ...parts(schemas, schema, value, path)];
}

function limits(schema: Schema, value: unknown, path: string): string[] {
  const wrong: string[] = [];
  if (typeof value === "number" && value < (schema.minimum ?? Number.NEGATIVE_INFINITY))
    wrong.push(`${path}: too small`);
  if (typeof value === "string") {
    if (value.length < (schema.minLength ?? 0)) wrong.push(`${path}: too short`);
    if (value.length > (schema.maxLength ?? Number.POSITIVE_INFINITY)) wrong.push(`${path}: too long`);
    if (schema.format === "uuid" && !/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(value))
      wrong.push(`${path}: no UUID`);
  }
  return wrong;
}

function parts(
  schemas: Readonly<Record<string, Schema>>,
  schema: Schema,
  value: unknown,
  path: string,
): string[] {
  if (Array.isArray(value)) {
    if (value.length > (schema.maxItems ?? Number.POSITIVE_INFINITY)) return [`${path}: too many items`];
    return value.flatMap((item, i) =>
      schema.items ? misfits(schemas, schema.items, item, `${path}[${i}]`) : [],
    );
  }
  if (typeof value !== "object" || value === null) return [];
  const missing = (schema.required ?? [])
    .filter((key) => !(key in value))
    .map((key) => `${path}.${key}: is missing`);
  const inside = Object.entries(value).flatMap(([key, item]) => {
    const property = schema.properties?.[key];
    const { additionalProperties: others } = schema;
    if (!property && others === false) return [`${path}.${key}: is not described`];
    const described = property ?? (others || undefined);
    return described ? misfits(schemas, described, item, `${path}.${key}`) : [];
  });
  return [...missing, ...inside];
}
