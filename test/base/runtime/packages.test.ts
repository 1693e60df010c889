/** Packages are found and imported at run time, by names that no bundler sees. */
import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { importPackage, isMissingPackage, packageFile } from "../../../src/base/runtime/packages.ts";

test("a package is imported by its name, and its file is the one that require would load", async () => {
  const { default: imported } = await importPackage<{ default: unknown }>("ms");
  const require = createRequire(import.meta.url);
  expect(packageFile("ms")).toBe(require.resolve("ms"));
  expect(imported).toBe(require("ms"));
});

test("a package that is not installed has no file, and its import fails as missing", async () => {
  expect(packageFile("no-such-package")).toBeUndefined();
  const error: unknown = await importPackage("no-such-package").catch((error: unknown) => error);
  expect(isMissingPackage(error)).toBe(true);
});

test("another error, or a thrown value that is none, is not a missing package", () => {
  for (const thrown of [new Error("broken"), undefined, null, "ERR_MODULE_NOT_FOUND"])
    expect(isMissingPackage(thrown)).toBe(false);
});
