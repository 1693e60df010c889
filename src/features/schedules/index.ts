/** Schedules: what a queue needs for `queue.schedule`, and its workers for firing. */
import { type Act, actOn } from "../../base/runtime/maybe-promise.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { internalsOf, type Shared } from "../queue.ts";
import type { FullTransaction } from "../store.ts";
import { Actions } from "./actions.ts";
import { loadCroner } from "./croner.ts";
import { Firing } from "./fire.ts";
import type { ScheduleActions, ScheduleMethods } from "./methods.ts";

export function schedules(queue: CoreQueue): Feature {
  const { store, wakeups, options } = internalsOf(queue);
  const wake = () => wakeups.workAdded(true);
  const actions = new Actions(store.schedules, { maxPayload: options.maxPayload, synchronous: false, wake });
  const open = async () => {
    await loadCroner();
    return actions;
  };
  const scheduleTimes: Shared["scheduleTimes"] = async (name, timing, most) =>
    await (await open()).timesOf(name, timing, most);
  return {
    methods: methodsOf(async (act) => await act(await open())) as ScheduleMethods,
    within: (inside, settings) => {
      // There is no time to load anything inside of a transaction: there the actions load it themselves.
      const actions = new Actions((inside as FullTransaction).schedules, settings);
      return methodsOf(actOn(actions, settings.synchronous));
    },
    shared: { scheduleTimes },
    jobs: (host) => [new Firing(store.schedules, host)],
  };
}

/** The methods of these actions, which may be destructured. */
const methodsOf = (act: Act<ScheduleActions>): ScheduleActions => ({
  schedule: (...given) => act((actions) => actions.schedule(...given)),
  schedules: (entries) => act((actions) => actions.schedules(entries)),
  getSchedule: (name) => act((actions) => actions.getSchedule(name)),
  listSchedules: (options) => act((actions) => actions.listSchedules(options)),
  editSchedule: (name, changes) => act((actions) => actions.editSchedule(name, changes)),
  pauseSchedule: (name) => act((actions) => actions.pauseSchedule(name)),
  resumeSchedule: (name) => act((actions) => actions.resumeSchedule(name)),
  triggerSchedule: (name) => act((actions) => actions.triggerSchedule(name)),
  backfillSchedule: (name, from, to) => act((actions) => actions.backfillSchedule(name, from, to)),
  removeSchedule: (name) => act((actions) => actions.removeSchedule(name)),
});
