/** Kinds of failures are counted although another worker takes the row away between two statements of the one that counts. */
import { expect, test } from "vitest";
import { failureKind } from "../../../src/base/values/failure-kind.ts";
import { FailureOperations } from "../../../src/features/failures/sql.ts";
import { runSync, type Step } from "../../../src/stores/sql/program.ts";
import { textsOf } from "../../../src/stores/sql/texts.ts";
import { compiler } from "../../../src/stores/sqlite/connection.ts";
import { sqliteDialect } from "../../../src/stores/sqlite/dialect.ts";

/** Counts one failure in a table whose changes find these numbers of rows, one after the other. Returns the changes that were made. */
function counted(found: number[]): string[] {
  const changes: string[] = [];
  const execute = (step: Step): unknown => {
    if (step.want === "transaction") return runSync(step.op(), execute);
    if (step.want !== "count") return [];
    changes.push(compiler.compile(step.query).text.includes("insert into") ? "insert" : "add");
    return found.shift() ?? 0;
  };
  const one = {
    ...failureKind("resize", "Error", "no luck"),
    minute: 0,
    count: 1,
    firstAt: 0,
    lastAt: 0,
    sample: 1,
  };
  runSync(new FailureOperations(textsOf(sqliteDialect)).add([one]), execute);
  return changes;
}

test("a row that is folded after another worker has added it is added again, until the failure is counted in", () => {
  expect(counted([1, 1])).toEqual(["insert", "add"]);
  expect(counted([1, 0, 0, 0, 1, 1])).toEqual(["insert", "add", "insert", "add", "insert", "add"]);
});

test("a failure that cannot be counted in is an error, not a loop without an end", () => {
  expect(() => counted([])).toThrow(/was not counted/);
});
