/** The operations of the test kit. `TestStore` says what they promise. */

import { sql } from "drizzle-orm/sql/sql";
import type { Dialect } from "../../stores/sql/dialect.ts";
import { count, type Program, type Runner } from "../../stores/sql/program.ts";
import type { Statement } from "../../stores/sql/statements.ts";
import type { TaskOperations } from "../../stores/sql/tasks.ts";
import type { Texts } from "../../stores/sql/texts.ts";
import type { TestStore } from "./contract.ts";

const testingStatements = (d: Dialect) =>
  ({
    place: (p) => sql`
      update dbq_tasks set queue_name = ${p.queueName}, retry_count = ${d.integer(p.retryCount)} where id = ${p.id}`,
  }) satisfies Record<string, Statement>;

export class TestingOperations {
  readonly #s: ReturnType<typeof testingStatements>;

  constructor({ dialect }: Texts) {
    this.#s = testingStatements(dialect);
  }

  *place(task: { id: number; queueName: string; retryCount: number }): Program<void> {
    yield* count(this.#s.place, task, false);
  }
}

export function testingMethods({ run }: Runner, ops: TestingOperations, tasks: TaskOperations): TestStore {
  return {
    list: (filter, limit, after) => run(() => tasks.list(filter, limit, after)),
    place: (task) => run(() => ops.place(task)),
  };
}
