import { expect, test } from "vitest";
import { withoutPassword } from "../../../src/base/options/passwords.ts";

test.each([
  ["app.db", "app.db"],
  ["sqlite:/data/app.db", "sqlite:/data/app.db"],
  ["postgres://app@db.internal/app", "postgres://app@db.internal/app"],
  [
    "postgres://app:secret@db.internal:5432,other/app?sslmode=require",
    "postgres://app:***@db.internal:5432,other/app?sslmode=require",
  ],
  ["mysql://app:@db/app", "mysql://app:***@db/app"],
  ["postgres://app:sec/r:e@t@db/app", "postgres://app:***@db/app"],
  [
    "postgres://db/app?user=app&password=secret&sslmode=require",
    "postgres://db/app?user=app&password=***&sslmode=require",
  ],
  ["postgres://app:secret/app", "postgres://app:***"],
  ["mysql://app:1secret?host=/run/mysqld", "mysql://app:***"],
  ["postgres://db:5432,other/app", "postgres://db:5432,other/app"],
  ["postgres://[::1]:5432/app", "postgres://[::1]:5432/app"],
  ["sqlite:///data/12:30.db", "sqlite:///data/12:30.db"],
  ["sqlite://data:30.db", "sqlite://data:30.db"],
  ["/data/run-12:30:05.db", "/data/run-12:30:05.db"],
  ["C:/data/of:me.db", "C:/data/of:me.db"],
  // A mistyped URL is treated as a path.
  ["/home/ada/'postgres:/app:secret/db'", "/home/ada/'postgres:/app:***"],
  ["/home/ada/postgres/app:secret@db/app", "/home/ada/postgres/app:***@db/app"],
  ["u:sec/r:e@t@db/app", "u:***@db/app"],
  ["C:/data/me@corp/app.db", "C:/data/me@corp/app.db"],
  ["host=db user=app password = 'sec ret' dbname=app", "host=db user=app password = ***"],
  ["postgres://me:secret@db/app", "postgres://me:***@db/app"],
  ["postgres://me@corp:secret@db/app", "postgres://me@corp:***@db/app"],
  ["mysql://me:se:cret@a,b/app", "mysql://me:***@a,b/app"],
  [
    "postgres://me@db/app?password=secret&sslmode=require",
    "postgres://me@db/app?password=***&sslmode=require",
  ],
  ["postgres://me@db/app", "postgres://me@db/app"],
  // Without a host and its @.
  ["postgres://me:secret/app", "postgres://me:***"],
  ["postgres://me:1secret?host=/run/postgresql", "postgres://me:***"],
  ["mysql:/me:secret/app", "mysql:/me:***"],
  ["postgres://db:5432", "postgres://db:5432"],
  ["postgres://db:5432?sslmode=require", "postgres://db:5432?sslmode=require"],
  ["postgres://[::1]:5432,[::2]/app", "postgres://[::1]:5432,[::2]/app"],
  ["postgres://[::1]:5432,me:secret/app", "postgres://[::1]:5432,me:***"],
  ["postgres:///app?host=a:1", "postgres:///app?host=a:1"],
  // Without the slashes of a URL.
  ["postgres:app:secret@db/app", "postgres:***@db/app"],
  ["sqlite:app:secret@db/app", "sqlite:app:***@db/app"],
  ['"postgres:app:secret"', '"postgres:app:***'],
])("%s is shown as %s", (target, expected) => {
  expect(withoutPassword(target)).toBe(expected);
});
