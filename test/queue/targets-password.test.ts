/** Errors about a mistyped URL, or one in the quotes of an env file, do not show its password. */
import { inspect } from "node:util";
import { expect, it } from "vitest";
import { openQueue } from "../../src/index.ts";

const password = "s3cret-Passw0rd";

it.each([
  `"postgres://app:${password}@127.0.0.1/db"`,
  `'mysql://app:${password}@127.0.0.1/db'`,
  ` postgres://app:${password}@127.0.0.1/db`,
  `postgres:app:${password}@127.0.0.1/db`,
  `postgres:/app:${password}@127.0.0.1/db`,
  `mysql:app:${password}@127.0.0.1/db`,
])("the error for the mistyped URL %s does not show its password", async (target) => {
  const error = await openQueue(target).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(Error);
  expect(inspect(error, { depth: 10 })).not.toContain(password);
});
