/** Schedules: what a queue needs for `queue.schedule`, and its workers for firing. */
import { type Act, actOn } from "../../base/runtime/maybe-promise.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { internalsOf, requestsOf, type Shared } from "../queue.ts";
import type { FullTransaction } from "../store.ts";
import { Actions } from "./actions.ts";
import { loadCroner } from "./croner.ts";
import { Firing } from "./fire.ts";
import type { ScheduleActions, ScheduleMethods } from "./methods.ts";

export function schedules(queue: CoreQueue): Feature {
  const { store, wakeups, options } = internalsOf(queue);
  const wake = () => wakeups.workAdded(true);
  const settings = { maxPayload: options.maxPayload, synchronous: false, wake };
  const actions = new Actions(store.schedules, settings);
  const requests = new Actions(requestsOf(queue).schedules, settings);
  const opened = async (some: Actions) => {
    await loadCroner();
    return some;
  };
  const scheduleTimes: Shared["scheduleTimes"] = async (name, timing, most) =>
    await (await opened(requests)).timesOf(name, timing, most);
  return {
    methods: {
      ...methodsOf(async (act) => await act(await opened(actions))),
      ...requestMethodsOf(async (act) => await act(await opened(requests))),
    } as ScheduleMethods,
    within: (inside, settings) => {
      // There is no time to load anything inside of a transaction: there the actions load it themselves.
      const actions = new Actions((inside as FullTransaction).schedules, settings);
      return methodsOf(actOn(actions, settings.synchronous));
    },
    shared: { scheduleTimes },
    jobs: (host) => [new Firing(store.schedules, host)],
  };
}

/** Reads and an enqueue, which `requestTimeout` limits. */
const requestMethodsOf = (
  act: Act<ScheduleActions>,
): Pick<ScheduleActions, "getSchedule" | "listSchedules" | "triggerSchedule"> => ({
  getSchedule: (name) => act((actions) => actions.getSchedule(name)),
  listSchedules: (options) => act((actions) => actions.listSchedules(options)),
  triggerSchedule: (name) => act((actions) => actions.triggerSchedule(name)),
});

/** The methods of these actions, which may be destructured. */
const methodsOf = (act: Act<ScheduleActions>): ScheduleActions => ({
  ...requestMethodsOf(act),
  schedule: (...given) => act((actions) => actions.schedule(...given)),
  schedules: (entries) => act((actions) => actions.schedules(entries)),
  editSchedule: (name, changes) => act((actions) => actions.editSchedule(name, changes)),
  pauseSchedule: (name) => act((actions) => actions.pauseSchedule(name)),
  resumeSchedule: (name) => act((actions) => actions.resumeSchedule(name)),
  backfillSchedule: (name, from, to) => act((actions) => actions.backfillSchedule(name, from, to)),
  removeSchedule: (name) => act((actions) => actions.removeSchedule(name)),
});
