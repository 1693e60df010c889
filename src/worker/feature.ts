/**
 * The one way in which a feature joins a queue: what it adds to the queue, and to each worker, drain and Manager that starts on
 * it. `open.ts` adds the features, since the core imports none.
 */

import type { Clock } from "../base/runtime/clock.ts";
import { internalsOf, type WithinMethods } from "../queue/internals.ts";
import type { CoreQueue } from "../queue/queue.ts";
import type { AttemptFeatures, AttemptMethods } from "./attempt-part.ts";
import { type ClaimHost, type ClaimPolicy, claimsOfAll, type OpenClaims } from "./claim-policy.ts";
import { type ExecutorSettings, type Executors, eventLoopExecutors, type OpenExecutors } from "./executor.ts";
import { type Meter, type MeterHost, meterOf, type OpenMeter } from "./meter.ts";
import type { Job, JobHost } from "./periodic-job.ts";

export interface Feature {
  /** Methods of the queue that return promises. They may be destructured, and a closed queue refuses their calls. */
  readonly methods?: object;
  /** Methods of the queue that return iterators, of which the same holds. */
  readonly iterators?: object;
  /** Methods of the queue in a transaction, `within(tx)`. */
  readonly within?: WithinMethods;
  /** What other features need of this one. */
  readonly shared?: object;
  /** What attempts ask, as `executors`. */
  readonly attempts?: AttemptMethods;
  /** New jobs for one start of a worker, a drain or a Manager. */
  readonly jobs?: (host: JobHost) => readonly Job[];
  /** What claims are for. Called for each start; of several features with it the last one has its way. */
  readonly claims?: OpenClaims;
  /** Where functions run. Called for each start; of several features with executors the last one has its way. */
  readonly executors?: OpenExecutors;
  /** Counts what ends, from each start to its stop. */
  readonly meter?: OpenMeter;
}

/** Adds a feature to a queue. What has started before goes on without it. */
export function addFeature(queue: CoreQueue, feature: Feature): void {
  const { within, shared, features, checkOpen } = internalsOf(queue);
  for (const [name, method] of methodsIn(feature.methods))
    Object.assign(queue, {
      [name]: async (...args: unknown[]) => {
        checkOpen();
        return await method(...args);
      },
    });
  for (const [name, iterate] of methodsIn(feature.iterators))
    Object.assign(queue, {
      [name]: (...args: unknown[]) => {
        checkOpen();
        return iterate(...args);
      },
    });
  Object.assign(shared, feature.shared);
  if (feature.within) within.push(feature.within);
  features.push(feature);
}

const methodsIn = (methods: object = {}): [string, (...args: unknown[]) => unknown][] =>
  Object.entries(methods);

// `queue/` knows no workers, and so it keeps features without their type. Only `addFeature` adds one.
const featuresOf = (queue: CoreQueue) => internalsOf(queue).features as readonly Feature[];

/** The features' jobs for one start of a worker. */
export function openJobs(queue: CoreQueue, host: JobHost): Job[] {
  return featuresOf(queue).flatMap(({ jobs }) => jobs?.(host) ?? []);
}

/** The executors for one start of a worker: the event loop, unless a feature has others. */
export function openExecutors(queue: CoreQueue, settings: ExecutorSettings): Executors {
  return lastOf(queue, "executors")?.(settings) ?? eventLoopExecutors;
}

/** What the claims are for of one start of a worker: all of its functions, unless a feature says otherwise. */
export function openClaims(queue: CoreQueue, host: ClaimHost): ClaimPolicy {
  return (lastOf(queue, "claims") ?? claimsOfAll)(host);
}

/** The meter for one start of a worker, a drain or a Manager. */
export function openMeter(queue: CoreQueue, host: MeterHost): Meter {
  return meterOf(featuresOf(queue).flatMap(({ meter }) => meter?.(host) ?? []));
}

function lastOf<K extends "executors" | "attempts" | "claims">(
  queue: CoreQueue,
  part: K,
): Feature[K] | undefined {
  return featuresOf(queue).findLast((feature) => feature[part] !== undefined)?.[part];
}

/** Milliseconds that a task may wait in a slot that no other task needs. A clock that a test steps stands still meanwhile. */
const longestInSlot = (clock: Clock | undefined): number => (clock ? 0 : 1_000);

/** What the attempts of one worker have for features. @param hasFreeSlot whether the worker could start another task */
export function attemptFeatures(queue: CoreQueue, hasFreeSlot: () => boolean): AttemptFeatures {
  const { options } = internalsOf(queue);
  const methods = lastOf(queue, "attempts") ?? noMethods;
  return { ...methods, queue, hasFreeSlot, patience: longestInSlot(options.clock) };
}

/** Of a queue without features. */
const noMethods: AttemptMethods = {
  before: () => undefined,
  groupOf: () => {
    throw new TypeError("currentTask().group: this queue was not opened by openQueue");
  },
  holdsUp: async () => false,
  ending: (definition) => definition,
  hasStopped: () => undefined,
};
