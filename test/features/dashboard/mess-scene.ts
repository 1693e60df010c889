/** A shop in which several things are wrong at once: what an operator finds who opens the dashboard at night. */
import { type Queue, remoteTask } from "../../../src/index.ts";
import { failed } from "./failure-scene.ts";
import { ordinary, Rows } from "./scenes.ts";

const minute = 60_000;

/** Fills the file of a queue. @returns the ids of the kinds of failures, and of the task that hangs */
export async function mess(queue: Queue, file: string): Promise<{ ids: string[]; hung: number }> {
  await ordinary(queue, file);
  const { ids } = failed(file);
  await queue.setLimit({ queueName: "exports" }, { concurrency: 2 });
  await queue.pause({ queueName: "newsletters" });
  await queue.schedule(
    "refresh-prices",
    { every: "5m", overlap: "allow" },
    remoteTask("refresh-prices").with({ queueName: "prices" }),
  );
  const rows = new Rows(file);
  let hung = 0;
  rows.all(() => {
    const ago = (minutes: number) => rows.now - minutes * minute;
    const worker = "web-2:3977:ef56ab78";
    const running = { status: "running", generation_id: 2, worker_id: worker };
    rows.run("update dbq_limits set paused_at = ? where name = 'newsletters'", ago(31));
    rows.run(
      "update dbq_workers set queue_names = ? where id = ?",
      JSON.stringify(["default", "mail", "exports", "newsletters", "prices"]),
      worker,
    );
    const add = (func: string, queueName: string, minutes: number, more = {}) =>
      rows.add("dbq_tasks", {
        ...{ func, queue_name: queueName, status: "pending", args: `["order-${minutes}"]` },
        ...{ created_at: ago(minutes), updated_at: ago(minutes), ...more },
      });
    for (let n = 0; n < 700; n += 1) add("send-newsletter", "newsletters", 20 + (n % 40));
    for (let n = 0; n < 2; n += 1) add("export-orders", "exports", 42, { ...running, started_at: ago(1) });
    for (let n = 0; n < 90; n += 1) add("export-orders", "exports", 15 + (n % 25));
    for (let n = 0; n < 9; n += 1)
      add("refresh-prices", "prices", 5 * (9 - n), {
        schedule_name: "refresh-prices",
        slot: ago(5 * (9 - n)),
      });
    hung = add("sync-inventory", "default", 44, { ...running, started_at: ago(43), timeout: 10 * minute });
    for (let n = 0; n < 3; n += 1)
      rows.add("dbq_audit", {
        ...{ at: ago(20 - n), actor: "eva", action: ["pause", "limit", "retry"][n] ?? "", count: 1 + 9 * n },
        target: ["queue newsletters", "queue exports", "tasks with func=send-receipt status=failed"][n] ?? "",
      });
  });
  return { ids, hung };
}
