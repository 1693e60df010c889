/** What a server's URL may contain, and that no message shows its password. */
import { describe, expect, it, test } from "vitest";
import { openQueue } from "../../../src/index.ts";
import { nameOf, readServerUrl } from "../../../src/stores/server/url.ts";

const defaults = { port: 5432, user: "postgres" };
const read = (url: string) => readServerUrl(url, defaults);

describe("a URL", () => {
  it("gives user, password, host, port, database and parameters", () => {
    expect(read("postgres://me:s%40cret@db.example:6000/app?sslmode=require&application_name=a%20b")).toEqual(
      {
        hosts: [{ host: "db.example", port: 6000 }],
        user: "me",
        password: "s@cret",
        database: "app",
        parameters: { sslmode: "require", application_name: "a b" },
      },
    );
  });

  it("may contain the database alone", () => {
    const { hosts, user, password } = read("postgres:///app");
    expect({ hosts, user, password }).toEqual({
      hosts: [{ host: "127.0.0.1", port: 5432 }],
      user: "postgres",
      password: "",
    });
  });

  it("may name several hosts in order, each with a port or the default one", () => {
    expect(read("mysql://root@a:1,b,[::1]:3,[fe80::1]/app").hosts.map(nameOf)).toEqual([
      "a:1",
      "b:5432",
      "[::1]:3",
      "[fe80::1]:5432",
    ]);
  });

  it("may name the folder of a socket", () => {
    expect(read("postgres://me@%2Frun%2Fpostgresql/app").hosts).toEqual([
      { host: "/run/postgresql", port: 5432 },
    ]);
  });

  it("may have host, user and password in its parameters", () => {
    const { hosts, user, password } = read(
      "postgres:///app?host=/run/postgresql&port=6000&user=me&password=s%40",
    );
    expect({ hosts, user, password }).toEqual({
      hosts: [{ host: "/run/postgresql", port: 6000 }],
      user: "me",
      password: "s@",
    });
    expect(read("postgres://you@db:1/app?host=other&port=2&user=me")).toMatchObject({
      hosts: [{ host: "db", port: 1 }],
      user: "you",
    });
  });

  it.each(["postgres://me:secret@db", "postgres://me:secret@db/", "postgres://me:secret@db?password=secret"])(
    "without a database is refused: %s",
    (url) => {
      expect(() => read(url)).toThrow(/names no database/);
    },
  );
});

test("with a port that is too long does not show it, since it may be a password without a host", () => {
  expect(() => read("postgres://me:123456/app")).toThrow(
    /postgres:\/\/me:\*\*\* has a host that cannot be read/,
  );
});

test("that is not encoded properly is refused without showing its password", () => {
  expect(() => read("postgres://me:%zz@db/app")).toThrow(TypeError);
  expect(() => read("postgres://me:%zz@db/app")).not.toThrow(/zz/);
});

test.each([
  "postgres://me:secret@db",
  "postgres://me:secret@db:port/app",
  "postgres://me:secret@db/app#fragment",
  "postgres://me:a/secret@db/app",
  "postgres://me:a@secret@127.0.0.1:1/app",
  "mysql://me:secret@db/?password=secret",
  "postgres://me:secret/app",
  "postgres://me:secret?host=/run/postgresql",
  "postgres://me:secret",
  "postgres://me:se%zzcret",
  "postgres://me:a/secret",
  "postgres://127.0.0.1:1,me:secret/app",
  "postgres://me:secret@127.0.0.1:1/app",
  "mysql://me:secret@127.0.0.1:1/app",
])("no error of opening %s shows the password", async (url) => {
  const error = await openQueue(url).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(Error);
  expect(inspectedDeep(error)).not.toContain("secret");
});

/** An error with all its properties and causes. */
function inspectedDeep(error: unknown): string {
  const { message, stack, cause } = error as Error;
  return [message, stack, JSON.stringify(error), cause === undefined ? "" : inspectedDeep(cause)].join("\n");
}
