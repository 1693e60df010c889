/** All that the API reference describes: the package, and its parts that are imported by a path of their own. */
export * from "../src/entries/otel/index.ts";
export * from "../src/index.ts";
