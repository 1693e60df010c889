/** A database with workflows: one that waits, one that is wide, and one of a stranger's names. */
import { endless, evil, Rows, thrown } from "./scenes.ts";

const second = 1_000;

type Row = Record<string, string | number | null>;

/** Steps and tasks of workflows, told in milliseconds before now. */
class Flow {
  readonly #rows: Rows;

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** @param ended undefined: it is unfinished */
  task(
    func: string,
    args: unknown[],
    { enqueued, started, ended, ...row }: Row & { enqueued: number; started?: number; ended?: number },
  ): number {
    const at = (ago: number | undefined) => (ago === undefined ? null : this.#rows.now - ago);
    return this.#rows.add("dbq_tasks", {
      ...{ func, args: JSON.stringify(args), created_at: at(enqueued), started_at: at(started) },
      ...{ finished_at: at(ended), updated_at: at(ended ?? started ?? enqueued) },
      ...{ status: ended === undefined ? "waiting" : "completed", generation_id: 3 },
      ...row,
    });
  }

  step(taskId: number, seq: number, name: string, [started, ended]: [number | null, number], row: Row): void {
    this.#rows.add("dbq_steps", {
      ...{ task_id: taskId, seq, name, generation_id: 2, value: null },
      ...{ started_at: started === null ? null : this.#rows.now - started, ended_at: this.#rows.now - ended },
      ...row,
    });
  }

  /** As dbq marks a task that has steps or children, and no parent. */
  markRoot(id: number): void {
    this.#rows.run("update dbq_tasks set root_id = id where id = ?", id);
  }

  wait(taskId: number, name: string, row: Row): void {
    this.#rows.add("dbq_waits", { task_id: taskId, name, ...row });
  }
}

/** @returns the ids of three workflows: an order that waits, one with 120 children, and a hostile one that has failed */
export function flows(file: string): { order: number; wide: number; hostile: number } {
  const rows = new Rows(file);
  const flow = new Flow(rows);
  const ids = { order: 0, wide: 0, hostile: 0 };
  rows.all(() => {
    ids.wide = wideFlow(flow);
    ids.hostile = hostileFlow(flow, rows.now);
    ids.order = orderFlow(flow, rows.now);
  });
  return ids;
}

function orderFlow(flow: Flow, now: number): number {
  const id = flow.task("order", ["a-9", { total: "49.90 EUR" }], {
    ...{ enqueued: 95 * second, started: 21 * second, status: "waiting" },
  });
  const own = { parent_id: id, root_id: id };
  flow.step(id, 1, "charge", [94.8 * second, 91 * second], {
    value: JSON.stringify({ order: "a-9", receipt: "ch_3NqY" }),
  });
  flow.step(id, 2, "cool-off", [null, 61 * second], {});
  flow.step(id, 3, "reserve", [60.9 * second, 55 * second], {
    error: JSON.stringify(thrown("StockError", "two of the three articles are on their way")),
  });
  const lines = { lines: Array.from({ length: 40 }, (_, i) => ({ article: `tea-${i}`, count: 3 })) };
  flow.step(id, 4, "pick", [54 * second, 47 * second], { value: JSON.stringify(lines) });
  flow.task("invoice", ["a-9"], { enqueued: 46 * second, started: 45 * second, ended: 38 * second, ...own });
  const papers = flow.task("papers", ["a-9"], {
    ...{ enqueued: 46 * second, started: 31 * second, ended: 22 * second, ...own },
  });
  flow.step(papers, 1, "address", [44 * second, 41 * second], { value: '"Hafenstr. 7, Bremen"' });
  const ofPapers = { parent_id: papers, root_id: id };
  flow.task("label", ["a-9", "DHL"], {
    ...{ enqueued: 40 * second, started: 39 * second, ended: 33 * second, ...ofPapers },
  });
  flow.task("customs", ["a-9"], {
    ...{ enqueued: 40 * second, started: 37 * second, ended: 32 * second, ...ofPapers },
    ...{ status: "failed", retry_count: 3, error: JSON.stringify(thrown("CustomsError", "no such tariff")) },
  });
  const parcel = flow.task("parcel", ["a-9"], {
    ...{ enqueued: 20 * second, started: 12 * second, status: "running", worker_id: "w", ...own },
  });
  flow.step(parcel, 1, "wrap", [11 * second, 4 * second], { value: '{"grams":420}' });
  flow.wait(id, "approval", { kind: "event", target: "approved:a-9", deadline: now + 7 * 86_400 * second });
  flow.wait(id, "parcel", { kind: "child", target: String(parcel) });
  flow.markRoot(id);
  return id;
}

/** More children than are shown. */
function wideFlow(flow: Flow): number {
  const id = flow.task("thumbnails", ["album-12"], {
    enqueued: 900 * second,
    started: 640 * second,
    ended: 630 * second,
  });
  const own = { parent_id: id, root_id: id };
  for (let n = 0; n < 120; n += 1) {
    const enqueued = (890 - n / 10) * second;
    const child = flow.task("thumbnail", [`photo-${n}.jpg`, 320], {
      ...{ enqueued, started: (880 - 2 * n) * second, ended: (877 - 2 * n) * second, ...own },
    });
    flow.step(id, n + 1, `thumbnail#${n + 1}`, [null, enqueued], { child_id: child });
  }
  flow.markRoot(id);
  return id;
}

/** Markup, endless words and many levels. */
function hostileFlow(flow: Flow, now: number): number {
  const error = JSON.stringify({ name: evil, message: `${evil} ${endless}`, stack: endless });
  const times = { enqueued: 60 * second, started: 50 * second, ended: 20 * second };
  const id = flow.task(`${evil}-long-long-long-long-long`, [evil, endless], {
    ...{ ...times, status: "failed", error },
  });
  flow.step(id, 1, evil, [49 * second, 40 * second], { value: JSON.stringify({ [evil]: endless }) });
  flow.step(id, 2, endless.slice(0, 300), [39 * second, 30 * second], { error });
  let parent = id;
  for (let level = 0; level < 12; level += 1) {
    parent = flow.task(endless.slice(0, 150), [evil], {
      ...times,
      ended: undefined,
      parent_id: parent,
      root_id: id,
    } as never);
    flow.step(parent, 1, evil, [null, 25 * second], {});
  }
  for (const target of [evil, endless.slice(0, 255)])
    flow.wait(parent, target, { kind: "event", target, deadline: now + 60 * second });
  flow.markRoot(id);
  return id;
}
