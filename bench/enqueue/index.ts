/** Enqueueing: one at a time, a thousand calls in one tick, and a thousand in one call. */
import type { Benchmark, Contender, FigureDefinition, Goal } from "../benchmark.ts";
import { contender, fewWhenFull, type Sizes } from "../contender.ts";
import type { PayloadKind } from "../payloads.ts";
import type { EnqueueVariant, Way } from "./variants.ts";

const sizes: Sizes<EnqueueVariant> = ({ quick, variant }) => {
  if (variant.way === "one") return quick ? 1_000 : 10_000;
  return quick ? 10_000 : 50_000;
};
const few = fewWhenFull(sizes, 2_000);

/** `committing`: the contenders that commit each task by itself. */
function contenders(committing: readonly string[]): Contender<EnqueueVariant>[] {
  const sizesOf = (name: string) => (committing.includes(name) ? few : sizes);
  return [
    contender("dbq", sizesOf("dbq"), async () => (await import("./dbq.ts")).enqueueDbq),
    contender("floor", sizesOf("floor"), async () => (await import("./floor.ts")).enqueueFloor),
    contender("plainjob", sizesOf("plainjob"), async () => (await import("./plainjob.ts")).enqueuePlainjob),
    contender("bullmq", sizes, async () => (await import("./bullmq.ts")).enqueueBullmq, {
      missing: async () => await (await import("../peers/bullmq.ts")).noRedis(),
    }),
  ];
}

const variant = (way: Way, payload: PayloadKind): EnqueueVariant => ({ name: payload, way, payload });

function figures(goal: Goal): FigureDefinition[] {
  return [{ name: "tasks/s", unit: "tasks/s", better: "higher", goals: [goal] }];
}

const one: Benchmark<EnqueueVariant> = {
  name: "enqueue-one",
  title: "Enqueueing one task after the other, each awaited",
  about:
    "One caller awaits each enqueue before the next, so each one is a commit. " +
    "The floor makes raw inserts of the same columns one after the other, each one a commit.",
  variants: [variant("one", "small"), variant("one", "1 KiB")],
  figures: figures({ per: "floor", must: 0.5, aim: 0.8 }),
  contenders: contenders(["dbq", "floor", "plainjob"]),
};

const tick: Benchmark<EnqueueVariant> = {
  name: "enqueue-tick",
  title: "A thousand enqueueTask calls in one tick, awaited together",
  about:
    "As in a server that answers many requests at once. Each caller gets its own id. " +
    "The floor makes a thousand raw inserts in one transaction; plainjob can only commit each job by itself.",
  variants: [variant("tick", "small"), { ...variant("tick", "1 KiB"), goals: false }],
  figures: figures({ must: 100_000, aim: 200_000 }),
  contenders: contenders(["plainjob"]),
};

const many: Benchmark<EnqueueVariant> = {
  name: "enqueue-many",
  title: "A thousand tasks in one call",
  about:
    "enqueueTasks of dbq, addMany of plainjob, addBulk of BullMQ. " +
    "The floor makes a thousand raw inserts of the same columns in one transaction.",
  variants: [variant("many", "small"), variant("many", "1 KiB"), variant("many", "mix")],
  figures: figures({ per: "floor", must: 0.4, aim: 0.7 }),
  contenders: contenders([]),
};

export const enqueue: readonly Benchmark<EnqueueVariant>[] = [one, tick, many];
