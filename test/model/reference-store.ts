/** The reference as a `Store`, for simulated workers where a database would only be slower. */
import { AsyncTransactionError } from "../../src/errors.ts";
import type { FullStore } from "../../src/features/store.ts";
import type { TaskCount } from "../../src/store.ts";
import type { Method, Reference } from "./reference.ts";

const methods: readonly Method[] = [
  "insert",
  "get",
  "idle",
  "attempts",
  "settleAndClaim",
  "findEnded",
  "heldBy",
  "taskStates",
  "taskProgress",
  "progress",
  "fillDefaults",
  "cancel",
  "retry",
  "purge",
  "promote",
  "prune",
  "freeKeys",
  "register",
  "unregister",
  "workers",
  "resize",
  "heartbeat",
  "rescue",
  "rescueOrphans",
];

/** Each method, with the reference's answer as a promise. */
function promised(reference: Reference): Pick<FullStore, Method> {
  const entries = methods.map((method) => {
    const ask = reference[method].bind(reference) as (...args: unknown[]) => unknown;
    return [method, async (...args: unknown[]) => ask(...args)];
  });
  return Object.fromEntries(entries) as Pick<FullStore, Method>;
}

/** Its transactions are synchronous, as on SQLite. */
export function referenceStore(reference: Reference): FullStore {
  let open: object | undefined;
  const checked = <A extends unknown[], T>(tx: unknown, act: (...args: A) => T) => {
    return (...args: A): T => {
      if (tx !== open) throw new AsyncTransactionError("this transaction has ended");
      return act(...args);
    };
  };
  return {
    ...promised(reference),
    // No simulated task logs a line.
    log: async () => undefined,
    logs: async () => [],
    synchronous: true,
    cyclesMayOverlap: () => false,
    isInTransaction: () => false,
    within: (tx) => ({
      insert: checked(tx, reference.insert.bind(reference)),
      settle: checked(tx, reference.settle.bind(reference)),
      get workflows(): never {
        return missing("workflows")();
      },
      get schedules(): never {
        return missing("schedules")();
      },
    }),
    transaction: async (fn) => {
      const undo = reference.save();
      open = {};
      try {
        return await fn(open);
      } catch (error) {
        undo();
        throw error;
      } finally {
        open = undefined;
      }
    },
    count: async ({ status, func, queueName }) => {
      const found = reference
        .rows()
        .tasks.filter((task) => status?.includes(task.status) ?? true)
        .filter(
          (task) => (func ?? task.func) === task.func && (queueName ?? task.queueName) === task.queueName,
        );
      return found.map((task): TaskCount => ({ ...task, count: 1 }));
    },
    list: missing("list"),
    keepAlive: missing("keepAlive"),
    watch: () => () => undefined,
    diagnose: async () => [],
    get agents(): never {
      return missing("agents")();
    },
    get archive(): never {
      return missing("archive")();
    },
    get transfer(): never {
      return missing("transfer")();
    },
    // No simulated function has a limit.
    limits: { ...missingLimits, declare: async () => undefined, prune: async () => 0 },
    get schedules(): never {
      return missing("schedules")();
    },
    get drains(): never {
      return missing("drains")();
    },
    // Nobody acts on simulated tasks.
    look: { ...missingLook, pruneAudits: async () => 0 },
    noting: missing("noting"),
    reader: async () => missing("reader")(),
    get stats(): never {
      return missing("stats")();
    },
    get failures(): never {
      return missing("failures")();
    },
    get encryption(): never {
      return missing("encryption")();
    },
    get causes(): never {
      return missing("causes")();
    },
    get health(): never {
      return missing("health")();
    },
    get hooks(): never {
      return missing("hooks")();
    },
    get workflows(): never {
      return missing("workflows")();
    },
    get testing(): never {
      return missing("testing")();
    },
    close: async () => undefined,
  };
}

const missingLook = {
  areFew: missing("look"),
  listFew: missing("look"),
  countFew: missing("look"),
  countRange: missing("look"),
  span: missing("look"),
  listRange: missing("look"),
  list: missing("look"),
  get: missing("look"),
  texts: missing("look"),
  edit: missing("look"),
  editEach: missing("look"),
  retryEach: missing("look"),
  cancelEach: missing("look"),
  deleteEach: missing("look"),
  audit: missing("look"),
  audits: missing("look"),
};

const missingLimits = {
  set: missing("limits"),
  pause: missing("limits"),
  resume: missing("limits"),
  throttle: missing("limits"),
  list: missing("limits"),
  records: missing("limits"),
  putOff: missing("limits"),
  about: missing("limits"),
  namesInUse: missing("limits"),
  adopt: missing("limits"),
};

function missing(what: string): () => never {
  return () => {
    throw new Error(`the reference has no ${what}: the simulation does not use it`);
  };
}
