/** The operations of the test kit. `TestStore` says what they promise. */
import { sql } from "drizzle-orm/sql/sql";
import type { Dialect } from "./dialect.ts";
import { count, type Program } from "./program.ts";
import type { Statement } from "./statements.ts";
import type { Texts } from "./texts.ts";

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
