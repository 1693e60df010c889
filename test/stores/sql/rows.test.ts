/** Each list of columns matches the function that reads it, in whatever type a driver returns numbers. */
import { describe, expect, it } from "vitest";
import type { Row } from "../../../src/stores/sql/dialect.ts";
import * as rows from "../../../src/stores/sql/rows.ts";

const camel = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
const names = (columns: readonly string[]) => columns.map(camel);

/** Columns with text; the others hold numbers. */
const texts = new Set(
  names([
    ...["func", "args", "kwargs", "result", "error", "status", "queue_name", "worker_id", "request_id"],
    ...[
      "unique_key",
      "meta",
      "progress_note",
      "outcome",
      "error_name",
      "error_message",
      "error_stack",
      "error_cause",
      "failure",
      "trace_context",
      "group_key",
      "schedule_name",
    ],
    ...["host", "boot_id", "pid_namespace", "process_start"],
  ]),
);

const sample = (name: string, i: number) => (texts.has(name) ? `text ${i}` : i + 1);

describe("columns and their reader", () => {
  it.each<[what: string, columns: readonly string[], read: (row: Row) => object]>([
    ["a task", rows.taskColumns, rows.toTaskRecord],
    ["a task's version", rows.taskVersionColumns, rows.toTaskVersion],
    ["a task's state", rows.taskStateColumns, rows.toTaskState],
    ["an attempt", rows.attemptColumns, rows.toStoredAttempt],
  ])("%s", (_, columns, read) => {
    const row = names(columns).map(sample);
    const expected = Object.fromEntries(names(columns).map((name, i) => [name, sample(name, i)]));
    expect(read(row)).toStrictEqual(expected);
    for (const type of [String, BigInt]) {
      const given = row.map((value) => (typeof value === "number" ? type(value) : value));
      expect(read(given)).toStrictEqual(expected);
    }
  });

  it("null stays null and does not become zero", () => {
    const task = rows.toTaskRecord(names(rows.taskColumns).map(() => null));
    for (const name of names([
      ...["wait_until", "started_at", "finished_at", "timeout", "progress", "result", "error", "worker_id"],
    ]))
      expect(task).toHaveProperty(name, null);
    expect(rows.toStoredAttempt(names(rows.attemptColumns).map(() => null)).startedAt).toBeNull();
  });

  it("a worker's columns are followed by the age of its heartbeat and whether its session is alive", () => {
    const given = names(rows.workerColumns).map((name, i) =>
      name === "id" ? "w" : name === "queueNames" ? '["a","b"]' : sample(name, i),
    );
    const expected = Object.fromEntries(names(rows.workerColumns).map((name, i) => [name, given[i]]));
    const worker = { ...expected, queueNames: ["a", "b"], heartbeatAge: 250 };
    for (const [said, sessionLives] of [
      [null, null],
      [0, false],
      ["0", false],
      [1n, true],
      ["1", true],
    ] as const)
      expect(rows.toWorkerRecord([...given, 250, said])).toStrictEqual({ ...worker, sessionLives });
  });

  it("a heartbeat's fields are numbers, negative after a clock stepped back", () => {
    const at = names(rows.workerColumns);
    const given: unknown[] = at.map((name, i) => (name === "queueNames" ? "[]" : sample(name, i)));
    given[at.indexOf("beat")] = "42";
    given[at.indexOf("heartbeatAt")] = 1_700_000_000_000n;
    given[at.indexOf("lease")] = "15000";
    const worker = rows.toWorkerRecord([...given, "-5000", null]);
    expect(worker).toMatchObject({
      beat: 42,
      heartbeatAt: 1_700_000_000_000,
      lease: 15_000,
      heartbeatAge: -5_000,
    });
  });
});
