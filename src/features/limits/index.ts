/** Limits and pauses: validates, writes, wakes the workers of this process and reports. Workers delete rows that have no effect. */
import { readLimit, readLimitTarget, readPauseTarget } from "../../base/options/limits.ts";
import { limitChannel } from "../../events.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { deletingJob } from "../../worker/pruning.ts";
import { limitInfoOf, targetOf } from "../operate/pauses.ts";
import { internalsOf } from "../queue.ts";
import { CodeLimits, type LimitWrites } from "./code-limits.ts";
import type { LimitMethods } from "./methods.ts";

/** Milliseconds: a late start counts as if it had come up to 1.83 days earlier, for the longest `per` of a rate (`rate.ts`). */
const limitAge = 2 * 86_400_000;
const limitsEvery = 3_600_000;

export function limits(queue: CoreQueue): Feature {
  const { store } = internalsOf(queue);
  // A rate or a throttle of groups leaves a row for each: of tenants that are gone, too.
  const pruning = deletingJob("deleting rows of dbq_limits that have no effect", limitsEvery, (most) =>
    store.limits.prune(limitAge, most),
  );
  const throttle: LimitWrites["throttle"] = async ({ func, groupKey }, delay) => {
    const group = { kind: "group", name: func, group: groupKey ?? "" } as const;
    await store.limits.throttle(groupKey === null ? { kind: "func", name: func, group: "" } : group, delay);
    limitChannel.publish({ change: "throttled", func, group: groupKey, delay });
  };
  return {
    methods: methodsOf(queue),
    claims: (host) => new CodeLimits({ declare: store.limits.declare, throttle }, host),
    jobs: () => [pruning],
    shared: { throttle },
  };
}

function methodsOf(queue: CoreQueue): LimitMethods {
  const { store, wakeups } = internalsOf(queue);
  return {
    setLimit: async (target, limit) => {
      const scope = readLimitTarget(target, "setLimit");
      const values = limit === null ? null : readLimit(limit, "setLimit: limit");
      await store.limits.set(scope, values);
      wakeups.workAdded();
      limitChannel.publish({ change: "limited", target: targetOf(scope), limit: values });
    },
    listLimits: async () => (await (store.requests ?? store).limits.list()).map(limitInfoOf),
    pause: async (target) => {
      const scope = readPauseTarget(target, "pause");
      const changed = await store.limits.pause(scope);
      if (changed) limitChannel.publish({ change: "paused", target: targetOf(scope) });
      return changed;
    },
    resume: async (target) => {
      const scope = readPauseTarget(target, "resume");
      const changed = await store.limits.resume(scope);
      wakeups.workAdded();
      if (changed) limitChannel.publish({ change: "resumed", target: targetOf(scope) });
      return changed;
    },
  };
}
