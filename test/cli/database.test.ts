import { expect, test } from "vitest";
import { shown } from "../../src/cli/database.ts";

test.each([
  ["app.db", "app.db"],
  ["sqlite:/data/app.db", "sqlite:/data/app.db"],
  ["postgres://app@db.internal/app", "postgres://app@db.internal/app"],
  [
    "postgres://app:secret@db.internal:5432,other/app?sslmode=require",
    "postgres://app:…@db.internal:5432,other/app?sslmode=require",
  ],
  ["mysql://app:@db/app", "mysql://app:…@db/app"],
  ["postgres://app:sec/r:e@t@db/app", "postgres://app:…@db/app"],
  [
    "postgres://db/app?user=app&password=secret&sslmode=require",
    "postgres://db/app?user=app&password=…&sslmode=require",
  ],
  // A mistyped URL is taken for a path.
  ["/home/ada/postgres/app:secret@db/app", "/home/ada/postgres/app:…@db/app"],
])("%s is shown without its password", (target, expected) => {
  expect(shown(target)).toBe(expected);
});
