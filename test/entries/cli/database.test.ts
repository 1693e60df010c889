import { expect, test } from "vitest";
import { shown } from "../../../src/entries/cli/database.ts";

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
  ["postgres://app:secret/app", "postgres://app:…"],
  ["mysql://app:1secret?host=/run/mysqld", "mysql://app:…"],
  ["postgres://db:5432,other/app", "postgres://db:5432,other/app"],
  ["postgres://[::1]:5432/app", "postgres://[::1]:5432/app"],
  ["sqlite:///data/12:30.db", "sqlite:///data/12:30.db"],
  ["sqlite://data:30.db", "sqlite://data:30.db"],
  ["/data/run-12:30:05.db", "/data/run-12:30:05.db"],
  ["C:/data/of:me.db", "C:/data/of:me.db"],
  // A mistyped URL is taken for a path.
  ["/home/ada/'postgres:/app:secret/db'", "/home/ada/'postgres:/app:…"],
  ["/home/ada/postgres/app:secret@db/app", "/home/ada/postgres/app:…@db/app"],
  ["u:sec/r:e@t@db/app", "u:…@db/app"],
  ["C:/data/me@corp/app.db", "C:/data/me@corp/app.db"],
  ["host=db user=app password = 'sec ret' dbname=app", "host=db user=app password = …"],
])("%s is shown without its password", (target, expected) => {
  expect(shown(target)).toBe(expected);
});
