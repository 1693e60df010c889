/** Small parts that several pages of lists share. */
import type { FC } from "hono/jsx";
import type { WorkerHealth } from "../../../base/tasks/worker-health.ts";
import { evenSpan } from "../../../base/text/durations.ts";
import type { Cause } from "../../causes/methods.ts";
import type { LimitInfo } from "../../limits/methods.ts";
import type { PageContext } from "../page.ts";
import { ActionButton, grouped, href, type Question, span, tasksText } from "./ui.tsx";

/** The order in which people count: provider-2 before provider-10. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;

/** The head of a column of numbers. */
export const head = (name: string) => <span class="number">{name}</span>;

export function percent(part: number, whole: number): string {
  if (part === 0 || whole === 0) return "0 %";
  const share = (100 * part) / whole;
  return `${share < 1 ? "< 1" : share.toFixed(share < 10 && part !== whole ? 1 : 0)} %`;
}

/** What people tell a worker by: where it runs. */
export const workerName = ({ host, pid }: { host: string; pid: number }): string => `${host}, process ${pid}`;

/** The workers that are frozen, as causes say it: they are not proven dead, and send no heartbeat. */
export const frozenIn = (causes: readonly Pick<Cause, "kind" | "workerId">[]): ReadonlySet<string> =>
  new Set(causes.flatMap(({ kind, workerId }) => (kind === "frozen" && workerId ? [workerId] : [])));

/** How many workers live, such as `3`, `3 of 5`, and `3 of 5, 1 frozen`. */
export function aliveAmong(
  workers: readonly WorkerHealth[],
  frozen: ReadonlySet<string>,
): { alive: number; text: string } {
  const stands = workers.filter(({ id }) => frozen.has(id)).length;
  const alive = workers.filter(({ id, liveness }) => liveness === "alive" && !frozen.has(id)).length;
  const text = alive === workers.length ? grouped(alive) : `${grouped(alive)} of ${grouped(workers.length)}`;
  return { alive, text: stands === 0 ? text : `${text}, ${grouped(stands)} frozen` };
}

/** Why a worker is not alive, in words; undefined: it is. */
export function whyNotAlive({ reason, pid, lease }: WorkerHealth): string | undefined {
  if (reason === "process-ended") return `its process ${pid} has ended`;
  if (reason === "session-ended") return "its database session has ended";
  return reason === null ? undefined : `no heartbeat within its lease of ${span(lease)}`;
}

export const rateText = ({ limit, per, burst }: NonNullable<LimitInfo["rate"]>): string =>
  `${grouped(limit)} per ${evenSpan(per)}${burst > 1 ? `, ${grouped(burst)} at once` : ""}`;

/** The tasks that wait behind a pause. */
interface Behind {
  target: LimitInfo["target"];
  pending: number;
  oldestAge: number | null;
}

/** What follows when a pause ends: undefined where hardly a task waits, so that there is nothing to confirm. */
export function resumeQuestion(
  shown: string,
  { target, pending, oldestAge }: Behind,
  { base, access }: Pick<PageContext, "base" | "access">,
): Question | undefined {
  if (pending < manyTasks) return undefined;
  const age = oldestAge === null ? "" : `, the oldest for ${span(oldestAge)}`;
  const tasks = pending >= mostCounted ? `${grouped(mostCounted)} tasks or more` : tasksText(pending);
  const limit = access.may("limit") ? limitForm(base, target) : undefined;
  return {
    text: `Resume ${shown}? ${tasks} have waited behind the pause${age}. They start before newer tasks of the same priority, and take all slots that become free. To let fewer of them run at once, set a limit first.`,
    ...(limit === undefined ? {} : { instead: { text: "Set its limit first…", to: limit } }),
    does: "Resume it now",
    keeps: "Keep it paused",
  };
}

/** The address of the form that sets the limit of a queue or function. */
function limitForm(base: string, target: LimitInfo["target"]): string | undefined {
  if (typeof target === "string") return undefined;
  const [path, name] =
    "queueName" in target ? ["/queues/detail", target.queueName] : ["/functions/detail", target.func];
  return `${href(base, path, { name })}#set-limit`;
}

/** As many waiting tasks take slots from others for a while. */
const manyTasks = 100;

/** Counting of pending tasks ends there. */
const mostCounted = 10_000;

/** How many of a number of slots are in use. `isLimit`: it is a warning when all of them are. */
export const Slots: FC<{ used: number; of: number; isLimit?: boolean }> = ({ used, of, isLimit = false }) => (
  <span class={isLimit && used >= of ? "slots warn" : "slots"}>
    <meter min={0} max={Math.max(of, 1)} value={Math.min(used, of)} aria-label={`${used} of ${of} in use`} />
    {` ${used} of ${of}`}
  </span>
);

/** A field of a form that a person fills in. */
export const Field: FC<{
  name: string;
  label: string;
  hint?: string;
  value?: string | undefined;
  required?: boolean;
  kind?: "text" | "numeric";
}> = ({ name, label, hint, value, required, kind = "text" }) => (
  <label>
    <span>{label}</span>
    <input
      name={name}
      value={value}
      placeholder={hint}
      required={required}
      inputmode={kind}
      autocomplete="off"
    />
  </label>
);

/** The button that pauses a queue, a function or one of its groups, or ends the pause. */
export const PauseOrResume: FC<{
  target: Exclude<LimitInfo["target"], string>;
  isPaused: boolean;
  context: Pick<PageContext, "base" | "access">;
  /** What a person confirms before it is resumed. */
  asks?: Question | undefined;
}> = ({ target, isPaused, context, asks }) => {
  const [kind, name] =
    "queueName" in target ? (["queue", target.queueName] as const) : (["function", target.func] as const);
  const group = "queueName" in target ? undefined : target.group;
  const to = (action: "pause" | "resume") => href("", `/api/${kind}s/${action}`, { name, group });
  const shown = group === undefined ? `the ${kind} ${name}` : `the group ${group} of ${name}`;
  const what = group === undefined ? kind : "group";
  return isPaused ? (
    <ActionButton context={context} needs="resume" to={to("resume")} {...(asks ? { asks } : {})}>
      Resume
    </ActionButton>
  ) : (
    <ActionButton
      context={context}
      needs="pause"
      to={to("pause")}
      asks={{
        text: `Pause ${shown}? Its tasks wait until it is resumed; those that run go on.`,
        does: `Pause the ${what}`,
        keeps: "Let it run",
      }}
    >
      Pause
    </ActionButton>
  );
};
