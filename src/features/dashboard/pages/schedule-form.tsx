/** The form of a schedule: makes one, or changes when it makes its tasks, and shows the next times before that is done. */
import type { FC } from "hono/jsx";
import type { Schedule } from "../../../base/tasks/schedule.ts";
import { typedDuration } from "../../../base/text/durations.ts";
import { explained } from "../actions.ts";
import { BadQuery, type Page, type PageContext } from "../page.ts";
import { timingChangesOf, timingFields, timingOf } from "../schedule-fields.ts";
import { Field } from "./parts.tsx";
import { Empty, href, Panel, Time } from "./ui.tsx";

/** How many of the next times a schedule shows. */
export const shownTimes = 5;

/** Where a person fills in what a new schedule does, beside its timing. */
const callFields = ["name", "func", "args", "queueName"] as const;

/** What stands in the fields. */
type Values = Readonly<Partial<Record<(typeof callFields)[number] | (typeof timingFields)[number], string>>>;

export interface ScheduleFormData {
  /** The schedule of this name; `null`: there is none, and the form makes it. */
  schedule: Schedule | null;
  /** The texts that the person has filled in, or those of the schedule. */
  values: Values;
  /** The next times with these values, in the time zone's own clock; `null`: they were not asked for. */
  times: Date[] | null;
  /** Why there are none. */
  problem: string | null;
}

async function load({ look, reader, query }: PageContext): Promise<ScheduleFormData> {
  const given = Object.fromEntries(
    [...callFields, ...timingFields].flatMap((name) => {
      const value = query.get(name);
      return value === null ? [] : [[name, value]];
    }),
  ) as Values;
  const name = given.name ?? "";
  const schedule = name.trim() === "" ? undefined : await reader.getSchedule(name).catch(explained);
  const isAsked = timingFields.some((field) => given[field] !== undefined);
  if (!isAsked && !schedule) return { schedule: null, values: given, times: null, problem: null };
  const values = schedule && !isAsked ? valuesOf(schedule) : given;
  // A field that was left empty is `null`, as in the body of a form.
  const fields = Object.fromEntries(Object.entries(values).map(([key, value]) => [key, value || null]));
  try {
    const timing = schedule ? timingChangesOf(fields) : timingOf(fields);
    const times = await look.scheduleTimes(name.trim() || "new", timing, shownTimes);
    return { schedule: schedule ?? null, values, times, problem: null };
  } catch (error) {
    if (!(error instanceof BadQuery || error instanceof TypeError)) throw error;
    const problem = error.message.replace(`schedule "${name}": `, "").replace(`schedule "new": `, "");
    return { schedule: schedule ?? null, values, times: [], problem };
  }
}

function valuesOf(schedule: Schedule): Values {
  const { name, func, cron, every, timeZone, startAt, endAt, missed, overlap, jitter } = schedule;
  return {
    ...{ name, func, timeZone, overlap, cron: cron ?? "" },
    every: every === null ? "" : typedDuration(every),
    startAt: startAt?.toISOString() ?? "",
    endAt: endAt?.toISOString() ?? "",
    missed: typeof missed === "string" ? missed : String(missed.all),
    jitter: jitter === null ? "" : typedDuration(jitter),
  };
}

export const scheduleForm: Page<ScheduleFormData> = {
  path: "/schedules/edit",
  accepts: [...callFields, ...timingFields],
  title: ({ schedule }) => (schedule ? `Schedule ${schedule.name}` : "New schedule"),
  load,
  view: ({ schedule, values, times, problem }, context) => (
    <>
      <h1>
        {schedule ? <bdi>{schedule.name}</bdi> : "New schedule"}
        <small>{schedule ? `schedule of ${schedule.func}` : ""}</small>
      </h1>
      <div class="columns">
        <Panel title={schedule ? "When it makes its tasks" : "What it does, and when"} id="schedule">
          {context.access.may("schedule") ? (
            <ScheduleForm values={values} isNew={schedule === null} base={context.base} />
          ) : (
            <Empty>You may not change schedules here.</Empty>
          )}
        </Panel>
        <Panel title={`Its next ${shownTimes} times`} id="times">
          <NextTimes times={times} problem={problem} zone={values.timeZone || "UTC"} />
        </Panel>
      </div>
      <p class="under">
        <a href={href(context.base, "/schedules")}>All schedules</a>
      </p>
    </>
  ),
};

const NextTimes: FC<{ times: Date[] | null; problem: string | null; zone: string }> = ({
  times,
  problem,
  zone,
}) => {
  if (problem !== null) return <p class="warn">{problem}</p>;
  if (times === null) return <Empty>Fill in when it makes its tasks, and let the times be shown.</Empty>;
  if (times.length === 0) return <Empty>It makes no tasks.</Empty>;
  return <Times of={times} zone={zone} />;
};

/** Times by the clock of a zone, each with how far away it is. */
export const Times: FC<{ of: readonly Date[]; zone: string }> = ({ of, zone }) => (
  <ol class="times">
    {of.map((at) => (
      <li>
        {clockOf(at, zone)}{" "}
        <small>
          <Time at={at} />
        </small>
      </li>
    ))}
  </ol>
);

/** Day and time in a time zone. */
function clockOf(at: Date, timeZone: string): string {
  const parts = {
    weekday: "short",
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
    // Of an interval of seconds, all times would look the same.
    ...(at.getTime() % 60_000 === 0 ? {} : { second: "2-digit" as const }),
  } as const;
  return formatOf(JSON.stringify({ ...parts, timeZone })).format(at);
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Kept, since to make one takes 50 times as long as to use it. */
function formatOf(options: string): Intl.DateTimeFormat {
  const known = formats.get(options);
  if (known) return known;
  const made = new Intl.DateTimeFormat("en-GB", JSON.parse(options));
  if (formats.size >= mostFormats) formats.clear();
  formats.set(options, made);
  return made;
}

const mostFormats = 100;

/** @param isNew whether it makes a schedule: else it changes the timing of the one of this name */
export const ScheduleForm: FC<{ values: Values; isNew: boolean; base: string }> = ({
  values,
  isNew,
  base,
}) => (
  <form
    method="post"
    action={href(base, isNew ? "/api/schedules/make" : "/api/schedules/edit")}
    class="action fields"
    id="schedule-form"
  >
    {isNew ? <Call values={values} /> : <input type="hidden" name="name" value={values.name ?? ""} />}
    <Field name="cron" label="Cron expression" hint="30 2 * * *" value={values.cron} />
    <Field name="every" label="or an interval" hint="5m" value={values.every} />
    <Field name="timeZone" label="Time zone of the expression" hint="UTC" value={values.timeZone} />
    <Field name="startAt" label="None before (UTC)" hint="2027-01-31T12:00" value={values.startAt} />
    <Field name="endAt" label="None after (UTC)" hint="2027-12-31T12:00" value={values.endAt} />
    <Field name="missed" label="Missed times: one, skip or a number" hint="one" value={values.missed} />
    <label>
      <span>While an earlier task has not ended</span>
      <select name="overlap">
        <option value="skip" selected={values.overlap !== "allow"}>
          skip the time
        </option>
        <option value="allow" selected={values.overlap === "allow"}>
          make one more
        </option>
      </select>
    </label>
    <Field name="jitter" label="Up to this much later" hint="30s" value={values.jitter} />
    <button type="submit">{isNew ? "Make the schedule" : "Change the schedule"}</button>
    <button type="submit" class="plain" formmethod="get" formaction={href(base, "/schedules/edit")}>
      Show the next times
    </button>
  </form>
);

const Call: FC<{ values: Values }> = ({ values }) => (
  <>
    <Field name="name" label="Its name" value={values.name} required />
    <Field name="func" label="Function" value={values.func} required />
    <Field name="args" label="Arguments, a JSON array" hint="[]" value={values.args} />
    <Field name="queueName" label="Queue" hint="default" value={values.queueName} />
  </>
);
