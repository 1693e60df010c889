/** The page that asks before an action on many tasks: which tasks are meant, and how many they are. */
import type { FC } from "hono/jsx";
import type { Bulk } from "../actions.ts";
import { type Fields, filterField } from "../fields.ts";
import type { PageContext } from "../page.ts";
import type { Query } from "../query.ts";
import { grouped, href, tasksText } from "./ui.tsx";

/** An action on many tasks, and how many it would change. */
export interface Counted extends Bulk {
  count: number;
  complete: boolean;
  cap: number;
  fields: Fields;
}

/** The most ids that are named. */
const mostIds = 20;

export const Confirm: FC<{ context: PageContext; of: Counted }> = ({ context: { base }, of }) => {
  const { action, count, complete, cap, fields } = of;
  const title = `${action[0]?.toUpperCase()}${action.slice(1)}`;
  const query = filterField(fields) ?? {};
  const pairs = Object.entries(fields).flatMap(([name, value]) =>
    [value].flat().map((each) => [name, String(each)] as const),
  );
  const most = Math.min(count, cap);
  return (
    <div class="answer">
      <h1>{`${title} many tasks`}</h1>
      <p>
        {whatItDoes(action, count, complete, cap)} {count === 0 ? "" : whichTasks(of, query)}
      </p>
      <form method="post" action={href(base, "/tasks/bulk")} id="confirm">
        {pairs.map(([name, value]) => (
          <input type="hidden" name={name} value={value} />
        ))}
        <input type="hidden" name="confirmed" value="yes" />
        <div class="actions">
          {count === 0 ? (
            ""
          ) : (
            <button type="submit" class={action === "retry" ? "plain" : "danger"}>
              {`${title} ${tasksText(most)}`}
            </button>
          )}
          <a class="button" href={href(base, "/tasks", { ...query })}>
            Back to the tasks
          </a>
        </div>
        <progress hidden max={most} value={0} aria-label="Progress" />
      </form>
    </div>
  );
};

function whatItDoes(action: string, count: number, complete: boolean, cap: number): string {
  if (count === 0) return `No task is left that this would ${action}.`;
  if (count <= cap) return `This will ${action} ${tasksText(count)}.`;
  const all = `${complete ? "" : "More than "}${grouped(count)} tasks match`;
  return `${all}. This will ${action} the newest ${grouped(cap)} of them: so many are changed at a go.`;
}

/** The filter in words, or the ids. */
function whichTasks({ ids, filter }: Bulk, query: Query): string {
  if (ids) return `${ids.length === 1 ? "It is task" : "They are the tasks"} ${listed(ids)}.`;
  const conditions = Object.entries(names).flatMap(([name, words]) => {
    const value = query[name as keyof typeof names];
    return value === undefined ? [] : [`${words} ${value}`];
  });
  const which =
    conditions.length === 0 ? "They are all tasks" : `They are the tasks of ${joined(conditions, "and")}`;
  return `${which} that are ${joined(filter.status, "or")}.`;
}

/** The fields of a filter; the status is said by itself. */
const names = {
  func: "the function",
  queue: "the queue",
  group: "the group",
  schedule: "the schedule",
  requestId: "the request id",
  uniqueKey: "the unique key",
  failure: "the kind of failure",
  meta: "the meta",
  from: "the time from",
  to: "the time before",
} as const satisfies Partial<Record<keyof Query, string>>;

const listed = (ids: readonly number[]): string =>
  ids.length <= mostIds
    ? joined(ids.map(String), "and")
    : `${ids.slice(0, mostIds).join(", ")} and ${grouped(ids.length - mostIds)} more`;

const joined = (words: readonly string[], word: "and" | "or"): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${word} ${words.at(-1)}`;
