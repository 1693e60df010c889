/** The operations that enqueue, in each way that the API offers. */
import { sql } from "drizzle-orm";
import { DuplicateTaskError, openQueue } from "../../../src/index.ts";
import { type AppTransaction, after, runIn } from "../../fixtures/app-rows.ts";
import { chore } from "../../fixtures/tasks.ts";
import { backendOf } from "../backends/backend.ts";
import { type Operation, onQueue } from "./operation.ts";
import { heldKey, passedKey } from "./populated.ts";

/** An app's own Drizzle database. */
interface App {
  transaction<T>(fn: (tx: AppTransaction) => T): T;
}

const order = "order:1";
const ordered = chore.with({ requestId: order });
const insertOrder = sql`insert into orders (name) values (${order})`;
const batch = (count: number) => {
  const one = chore.with({ requestId: `batch:${count}` });
  return Array.from({ length: count }, () => [one, 0, "return"] as const);
};

export const enqueueing: readonly Operation[] = [
  onQueue("enqueue", 1, async (queue, actor) => {
    actor.arm();
    actor.acknowledged(await queue.enqueueTask(chore, 0, "return"));
  }),

  onQueue("enqueue with a unique key", 1, async (queue, actor) => {
    actor.arm();
    actor.acknowledgedUnique(await queue.enqueueTask(chore.with({ uniqueKey: "free" }), 0, "return"));
  }),

  onQueue("enqueue with a unique key that is held", 0, async (queue, actor) => {
    actor.arm();
    actor.acknowledgedUnique(await queue.enqueueTask(chore.with({ uniqueKey: heldKey }), 0, "return"));
  }),

  onQueue("replace a waiting task", 1, async (queue, actor) => {
    const replacing = chore.with({ uniqueKey: heldKey, onDuplicate: "replace", priority: 9 });
    actor.arm();
    actor.acknowledgedUnique(await queue.enqueueTask(replacing, 0, "return"));
  }),

  onQueue("enqueue with a unique key whose time has passed", 1, async (queue, actor) => {
    const keyed = chore.with({ uniqueKey: passedKey });
    actor.arm();
    actor.acknowledgedUnique(await queue.enqueueTask(keyed, 0, "return"));
  }),

  onQueue("enqueue several in one tick", 1, async (queue, actor) => {
    actor.arm();
    const all = [1, 2, 3].map(() => queue.enqueueTask(chore, 0, "return"));
    await Promise.all(all.map(async (id) => actor.acknowledged(await id)));
  }),

  onQueue("enqueue many", 1, async (queue, actor) => {
    actor.arm();
    actor.acknowledged(...(await queue.enqueueTasks(batch(5))));
  }),

  onQueue("enqueue many, of which one is refused", 0, async (queue, actor) => {
    const refused = chore.with({ uniqueKey: heldKey, onDuplicate: "error", requestId: "batch:3" });
    actor.arm();
    await queue.enqueueTasks([...batch(2), [refused, 0, "return"]]).catch((error: unknown) => {
      if (!(error instanceof DuplicateTaskError)) throw error;
    });
  }),

  onQueue("enqueue in a transaction of the queue", 1, async (queue, actor) => {
    actor.arm();
    const id = await queue.transaction((tx: AppTransaction, q) =>
      after(q.enqueueTask(ordered, 0, "return"), (enqueued) => after(runIn(tx, insertOrder), () => enqueued)),
    );
    actor.acknowledged(id);
  }),

  onQueue("enqueue in a transaction that is rolled back", 0, async (queue, actor) => {
    actor.arm();
    const asPlanned = new Error("as planned");
    const rolledBack = queue.transaction((tx: AppTransaction, q) =>
      after(runIn(tx, insertOrder), () =>
        after(q.enqueueTask(ordered, 0, "return"), () => {
          throw asPlanned;
        }),
      ),
    );
    await rolledBack.catch((error: unknown) => {
      if (error !== asPlanned) throw error;
    });
    actor.log("rolledBack", { note: order });
  }),

  {
    name: "enqueue in a transaction of the app's own",
    commits: 1,
    ofTheApp: true,
    async act(actor) {
      const app = (await backendOf(actor.database).app(actor.database)) as App;
      const queue = await openQueue(app);
      actor.arm();
      const ids = await app.transaction((tx) =>
        after(runIn(tx, insertOrder), () => queue.within(tx).enqueueTasks([[ordered, 0, "return"]])),
      );
      actor.acknowledged(...ids);
    },
  },
];
