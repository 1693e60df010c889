/** Schedules: when each makes its tasks, what it did last, and what is wrong with it. */
import type { FC } from "hono/jsx";
import type { Schedule } from "../../../base/tasks/schedule.ts";
import { timingInWords } from "../../../base/text/timing.ts";
import { present } from "../../../base/values/present.ts";
import { BadQuery, type Page, type PageContext } from "../page.ts";
import { ScheduleForm, shownTimes, Times } from "./schedule-form.tsx";
import { ActionButton, Empty, href, Name, Nothing, Panel, Status, slotsText, Table, Time } from "./ui.tsx";

export interface SchedulesData {
  schedules: Schedule[];
  /** The name after which the next page begins; null: this is the last one. */
  next: string | null;
}

/** Schedules on one page. */
const most = 200;

/** @throws BadQuery */
async function load({ reader, query }: PageContext): Promise<SchedulesData> {
  const after = query.get("after") || undefined;
  try {
    const found = await reader.listSchedules(present({ limit: most + 1, after, times: shownTimes }));
    const schedules = found.slice(0, most);
    return { schedules, next: found.length > most ? (schedules.at(-1)?.name ?? null) : null };
  } catch (error) {
    if (error instanceof TypeError) throw new BadQuery(error.message.replace(/^listSchedules: /, ""));
    throw error;
  }
}

export const schedules: Page<SchedulesData> = {
  path: "/schedules",
  menu: "Schedules",
  title: () => "Schedules",
  accepts: ["after"],
  load,
  view: (data, context) => (
    <>
      <h1>Schedules</h1>
      <Panel title="Schedules" id="schedules">
        {data.schedules.length === 0 ? (
          <Empty>
            There are no schedules. An app makes one with{" "}
            <code>queue.schedule(name, {"{ cron }"}, fn, …)</code>
            {acts(context) ? ", and so does the form below" : ""}.
          </Empty>
        ) : (
          <Table
            label="Schedules"
            isCards
            heads={[
              "Schedule",
              "When",
              "Function",
              "Next",
              "Last",
              "Overlap",
              "State",
              ...(acts(context) ? ["Actions"] : []),
            ]}
          >
            {data.schedules.map((schedule) => (
              <Row schedule={schedule} context={context} />
            ))}
          </Table>
        )}
        {acts(context) ? (
          <details id="new-schedule" class="more">
            <summary>New schedule</summary>
            <ScheduleForm values={{}} isNew base={context.base} />
          </details>
        ) : (
          ""
        )}
        {data.next === null ? (
          ""
        ) : (
          <footer class="under">
            <p>
              <a href={href(context.base, "/schedules", { after: data.next })}>More schedules</a>
            </p>
          </footer>
        )}
      </Panel>
    </>
  ),
};

const acts = ({ access }: PageContext): boolean => access.may("schedule");

const Row: FC<{ schedule: Schedule; context: PageContext }> = ({ schedule, context }) => {
  const { name, func, cron, every, timeZone, upcoming, lastSlot, lastTaskId, overlap, problem } = schedule;
  // Of an expression that is wrong, the words would be, too.
  const words = problem === null ? timingInWords({ cron, every }) : undefined;
  return (
    <tr>
      <th scope="row" class="name">
        <Name of={name} to={href(context.base, "/tasks", { schedule: name })} />
      </th>
      <td data-label="When">
        {words ?? <code>{cron}</code>}
        <small>{`${cron === null || words === undefined ? "" : `${cron}, `}${timeZone}`}</small>
      </td>
      <td class="name" data-label="Function">
        <Name of={func} />
      </td>
      <td data-label="Next">
        {upcoming.length === 0 ? <Nothing /> : <Times of={upcoming} zone={timeZone} />}
      </td>
      <td data-label="Last">
        <Time at={lastSlot} />
        {lastTaskId === null ? (
          ""
        ) : (
          <small>
            <a href={href(context.base, `/tasks/${lastTaskId}`)}>{`task ${lastTaskId}`}</a>
          </small>
        )}
      </td>
      <td data-label="Overlap">{overlap}</td>
      <td data-label="State">
        <State schedule={schedule} />
      </td>
      {acts(context) ? (
        <td class="acts">
          <Buttons schedule={schedule} context={context} />
        </td>
      ) : (
        ""
      )}
    </tr>
  );
};

const State: FC<{ schedule: Schedule }> = ({ schedule: { problem, pausedAt, upcoming, endAt, skipped } }) => {
  const isOver = upcoming.length === 0 && problem === null && pausedAt === null;
  return (
    <>
      {problem === null ? "" : <p class="warn">{problem}</p>}
      {pausedAt === null ? (
        ""
      ) : (
        <>
          <Status is="paused" /> <Time at={pausedAt} />
        </>
      )}
      {isOver ? "it has ended" : ""}
      {!isOver && endAt !== null ? (
        <small>
          {"ends "}
          <Time at={endAt} />
        </small>
      ) : (
        ""
      )}
      {skipped > 0 ? <small>{`${slotsText(skipped)} skipped`}</small> : ""}
      {problem === null && pausedAt === null && !isOver && endAt === null && skipped === 0 ? <Nothing /> : ""}
    </>
  );
};

const Buttons: FC<{ schedule: Schedule; context: PageContext }> = ({
  schedule: { name, pausedAt },
  context,
}) => {
  const to = (action: "run" | "pause" | "resume" | "remove") =>
    href("", `/api/schedules/${action}`, { name });
  return (
    <>
      <a class="button" href={href(context.base, "/schedules/edit", { name })}>
        Edit…
      </a>
      <ActionButton
        context={context}
        needs="schedule"
        to={to("run")}
        asks={{
          text: `Run ${name} now? It makes one more task; its times stay as they are.`,
          does: "Make one task",
          keeps: "Wait for its time",
        }}
      >
        Run now
      </ActionButton>
      {pausedAt === null ? (
        <ActionButton
          context={context}
          needs="schedule"
          to={to("pause")}
          asks={{
            text: `Pause ${name}? It makes no tasks until it is resumed; the times that pass meanwhile are skipped.`,
            does: "Pause the schedule",
            keeps: "Let it run",
          }}
        >
          Pause
        </ActionButton>
      ) : (
        <ActionButton context={context} needs="schedule" to={to("resume")}>
          Resume
        </ActionButton>
      )}
      <ActionButton
        context={context}
        needs="schedule"
        to={to("remove")}
        kind="danger"
        asks={{
          text: `Remove ${name}? It makes no further tasks. Those that it has made stay. Code that writes it at the start of the app makes it again.`,
          does: "Remove the schedule",
          keeps: "Keep it",
        }}
      >
        Remove
      </ActionButton>
    </>
  );
};
