import { defineConfig } from "drizzle-kit";

/** `DBQ_DIALECT` picks the schema file and the folder that its migrations go to. */
const dialect = process.env.DBQ_DIALECT ?? "sqlite";
const dialects = { sqlite: "sqlite", postgres: "postgresql", mysql: "mysql" } as const;

if (!Object.hasOwn(dialects, dialect)) {
  throw new TypeError(`DBQ_DIALECT: expected one of ${Object.keys(dialects).join(", ")}, got ${dialect}`);
}

export default defineConfig({
  dialect: dialects[dialect as keyof typeof dialects],
  schema: `./drizzle/${dialect}.ts`,
  out: `./migrations/${dialect}`,
});
