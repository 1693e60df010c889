/** Failed tasks of several kinds, as workers would have written them. */
import { failureKind } from "../../../src/base/values/failure-kind.ts";
import { Rows, thrown } from "./scenes.ts";

const minute = 60_000;

/** How many tasks of each kind have failed, how many attempts ended so, and how many minutes ago the first one was. */
const kinds = [
  {
    func: "charge-card",
    name: "PaymentError",
    message: "the card issuer did not answer",
    open: 212,
    count: 874,
    ago: 190,
  },
  {
    func: "send-receipt",
    name: "Error",
    message: 'no template "receipt-42" for user 4711',
    open: 61,
    count: 61,
    ago: 95,
  },
  {
    func: "sync-inventory",
    name: "FetchError",
    message: "GET https://stock.example/v2/items/9081?page=3 failed with 503",
    open: 14,
    count: 402,
    ago: 2_900,
  },
  {
    func: "render-report",
    name: "TimeoutError",
    message: "the task took longer than 30000 ms",
    open: 3,
    count: 5,
    ago: 700,
  },
  {
    func: "resize-image",
    name: "RangeError",
    message: `<script>window.hacked = 1</script>${"no-spaces-".repeat(30)} and no end 17`,
    open: 1,
    count: 1,
    ago: 9,
  },
  {
    func: "import-orders",
    name: "Error",
    message: 'duplicate key value violates unique constraint "orders_pkey"',
    open: 0,
    count: 37,
    ago: 44,
  },
];

/** Fills the file of a queue. @returns the ids of the kinds, in this order, and of a task of the first one */
export function failed(file: string): { ids: string[]; task: number } {
  const rows = new Rows(file);
  const ids: string[] = [];
  let task = 0;
  rows.all(() => {
    for (const { func, name, message, open, count, ago } of kinds) {
      const { id, errorName, message: normalised } = failureKind(func, name, message);
      ids.push(id);
      const error = thrown(name, message);
      let sample = 0;
      for (let n = 0; n < Math.max(1, open); n += 1) {
        const at = rows.now - minute * ago + Math.round((n / Math.max(1, open)) * minute * (ago - 1));
        const isOpen = n < open;
        sample = rows.add("dbq_tasks", {
          ...{
            func,
            args: JSON.stringify([4_700 + n, { retry: false }]),
            status: isOpen ? "failed" : "completed",
          },
          ...{ error: isOpen ? JSON.stringify(error) : null, failure: isOpen ? id : null, generation_id: 9 },
          ...{
            created_at: at - 9_000,
            updated_at: at,
            started_at: at - 1_200,
            finished_at: at,
            retry_count: 3,
          },
        });
        rows.add("dbq_attempts", {
          ...{ task_id: sample, generation_id: 8, outcome: "failed", started_at: at - 1_200, ended_at: at },
          ...{ error_name: name, error_message: message, error_stack: error.stack, failure: id },
        });
      }
      task ||= sample;
      const counted = { id, func, error_name: errorName, message: normalised, sample };
      const firstAt = rows.now - ago * minute;
      const begin = Math.floor(firstAt / minute) * minute;
      rows.add("dbq_failures", { ...counted, minute: begin, count: 1, first_at: firstAt, last_at: firstAt });
      const lastAt = rows.now - minute;
      const last = Math.floor(lastAt / minute) * minute;
      if (count > 1)
        rows.add("dbq_failures", {
          ...counted,
          minute: last,
          count: count - 1,
          first_at: lastAt,
          last_at: lastAt,
        });
    }
  });
  return { ids, task };
}
