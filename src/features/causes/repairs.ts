/** What repairs each kind of cause: a command, an action of the dashboard, or a sentence where neither can do it. */

import type { WorkerHealth } from "../../base/tasks/worker-health.ts";
import { typedDuration } from "../../base/text/durations.ts";
import { argument, quoted, servingOptions } from "../../base/text/shell.ts";
import type { LimitInfo } from "../limits/methods.ts";
import type { SchedulePile } from "./contract.ts";
import type { CauseAction, CauseFix } from "./methods.ts";

/** Neither a command of `dbq` nor a button repairs it. */
export const advised = (advice: string | null): CauseFix => ({ command: null, action: null, advice });

export const lookAtDatabase: CauseFix = { command: "dbq doctor", action: null, advice: null };

// ---- workers -----------------------------------------------------------------------------------

/** No command of dbq: it is for the shell of another host. */
export const thaw = ({ host, pid }: Pick<WorkerHealth, "host" | "pid">): CauseFix =>
  advised(
    `look at its process on ${host}: \`ps -o stat,etime,args -p ${pid}\`; to free its tasks at once, end it there: \`kill -9 ${pid}\``,
  );

/** @param catchesUp whether the workers that it has will do */
export const addWorkers = (queueName: string, catchesUp: boolean): CauseFix =>
  advised(
    `${catchesUp ? "wait, or start" : "start"} more workers for it: \`dbq worker ${servingOptions([queueName])} tasks.js\`; where its tasks wait for I/O, more slots do, too: \`--concurrency\``,
  );

export const raisePriority = (taskId: number): CauseFix =>
  advised(
    `give it a higher priority, on its page or by \`queue.updateTask(${taskId}, { priority })\`; or serve what may wait from a queue of its own`,
  );

// ---- functions ---------------------------------------------------------------------------------

/** A function that does harm is paused while somebody looks for the reason. */
export const pauseFunction = (func: string, advice: string): CauseFix => ({
  command: `dbq pause --func ${quoted(func)}`,
  action: { on: "functions", action: "pause", fields: { name: func } },
  advice,
});

export const lookForReasons = (func: string): string =>
  `\`dbq failures --func ${quoted(func)}\` names the reasons`;

export const lookAtAttempts = (taskId: number): string =>
  `\`dbq show ${taskId}\` has the attempts of one of its tasks`;

export const resumeRepaired = (func: string, advice: string): CauseFix =>
  advised(`${advice}; when it is repaired, \`dbq resume --func ${quoted(func)}\` ends the pause`);

export const lookAtHost: CauseFix = advised(
  "look at its memory and its log: `dmesg` names the processes that its kernel has killed",
);

export const cancelHung = (taskId: number): CauseFix => ({
  command: `dbq cancel ${taskId}`,
  action: { on: "tasks", action: "cancel", fields: { id: String(taskId) } },
  advice: null,
});

// ---- schedules ---------------------------------------------------------------------------------

/** One that skips already has these tasks by hand, or by a backfill. */
export const endPiling = ({ schedule, overlaps }: SchedulePile): CauseFix =>
  overlaps
    ? {
        command: `dbq schedule edit ${schedule.startsWith("-") ? `--overlap skip ${argument(schedule)}` : `${quoted(schedule)} --overlap skip`}`,
        action: { on: "schedules", action: "edit", fields: { name: schedule, overlap: "skip" } },
        advice: null,
      }
    : {
        command: `dbq schedule pause ${argument(schedule)}`,
        action: { on: "schedules", action: "pause", fields: { name: schedule } },
        advice: null,
      };

/** The tasks of a schedule that have not started. `bulk` is the dashboard's action on many tasks, which asks first. */
export const cancelPile = ({ schedule }: SchedulePile): CauseFix => ({
  command: `dbq cancel --schedule ${quoted(schedule)} --status pending,scheduled`,
  action: {
    on: "tasks",
    action: "bulk",
    fields: { action: "cancel", "filter.schedule": schedule, "filter.status": "pending,scheduled" },
  },
  advice: null,
});

// ---- limits and pauses -------------------------------------------------------------------------

/** How a limit or a pause is named. */
export interface About {
  subject: { queueName?: string; func?: string; group?: string; limit?: string };
  said: string;
  /** The options by which a command names it; `null`: the command has it as its argument. */
  options: string | null;
  action: Omit<CauseAction, "action"> | null;
  /** The fields by which the dashboard's action on limits names it. */
  fields: Record<string, string>;
}

export function about(target: LimitInfo["target"]): About {
  if (typeof target === "string")
    return {
      ...{ subject: { limit: target }, said: `the limit ${target}`, options: null, action: null },
      fields: { about: "name", name: target },
    };
  if ("queueName" in target) {
    const { queueName } = target;
    const action = { on: "queues", fields: { name: queueName } } as const;
    return {
      subject: { queueName },
      said: `the queue ${queueName}`,
      options: `--queue ${quoted(queueName)}`,
      action,
      fields: { about: "queue", name: queueName },
    };
  }
  const { func, group } = target;
  const ofGroup = group === undefined ? {} : { group };
  return {
    subject: { func, ...ofGroup },
    said: group === undefined ? `the function ${func}` : `the group ${group} of ${func}`,
    options: `--func ${quoted(func)}${group === undefined ? "" : ` --group ${quoted(group)}`}`,
    action: { on: "functions", fields: { name: func, ...ofGroup } },
    fields: { about: "func", name: func, ...ofGroup },
  };
}

export const resume = ({ options, action }: About): CauseFix => ({
  command: options === null ? null : `dbq resume ${options}`,
  action: action === null ? null : { ...action, action: "resume" },
  advice: null,
});

/** The values of a limit. */
export type Values = Pick<LimitInfo, "concurrency" | "rate">;

/** These values replace the whole limit. A person may change them before. */
export function setLimit({ concurrency, rate }: Values, target: LimitInfo["target"]): CauseFix {
  const { options, fields } = about(target);
  const values = [
    concurrency === null ? [] : [["concurrency", String(concurrency)] as const],
    rate === null ? [] : [["rate", `${rate.limit}/${typedDuration(rate.per)}`] as const],
    rate === null || rate.burst === 1 ? [] : [["burst", String(rate.burst)] as const],
  ].flat();
  const command = [
    "dbq limit",
    ...(options === null ? [] : [options]),
    ...values.map(([option, value]) => `--${option} ${value}`),
    ...(typeof target === "string" ? [argument(target)] : []),
  ];
  return {
    command: command.join(" "),
    action: { on: "limits", action: "limit", fields: { ...fields, ...Object.fromEntries(values) } },
    advice: "choose less where the service behind it cannot bear as much, or wait: no task is lost",
  };
}

export const waitForThrottle = (until: Date): CauseFix =>
  advised(`wait: its function has asked for a pause until ${until.toISOString()}`);
