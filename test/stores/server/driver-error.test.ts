/** The driver's error inside an error of Drizzle's, whose class and text differ between versions and copies of Drizzle. */
import { DrizzleQueryError } from "drizzle-orm";
import { expect, test } from "vitest";
import { driverError } from "../../../src/base/runtime/drizzle-internals.ts";
import { failureOf } from "../../../src/stores/postgres/connection.ts";

const reason = Object.assign(new Error("no such table"), { code: "42P01" });

test("the driver's error is found whatever Drizzle's message says", () => {
  const ofDrizzle = new DrizzleQueryError("select 1", [], reason);
  expect(driverError(ofDrizzle)).toBe(reason);
  ofDrizzle.message = "Failed to run the query 'select 1'";
  expect(driverError(ofDrizzle)).toBe(reason);
});

test("an error of the app with a cause, and values that are no errors, stay as they are", () => {
  const ofApp = new Error("Failed query of mine", { cause: reason });
  for (const thrown of [ofApp, reason, "text", {}]) expect(driverError(thrown)).toBe(thrown);
});

test("a transaction that Postgres has ended since it was idle counts as a lost connection", () => {
  const ended = new Error("terminating connection due to idle-in-transaction timeout");
  expect(failureOf(Object.assign(ended, { code: "25P03" }))).toBe("lost");
});
