/** The page that asks before an action on many tasks: which tasks are meant, and how many they are. */
import type { FC } from "hono/jsx";
import type { Bulk } from "../actions.ts";
import { type Fields, filterField } from "../fields.ts";
import type { PageContext } from "../page.ts";
import type { Query } from "../query.ts";
import { Field } from "./parts.tsx";
import { doneTo, grouped, href, nameOfAction, tasksText } from "./ui.tsx";

/** An action on many tasks, and how many it would change. */
export interface Counted extends Bulk {
  count: number;
  complete: boolean;
  cap: number;
  fields: Fields;
}

/** The fields of a form; those that were left empty are not there. */
export const pairsOf = (fields: Fields): (readonly [name: string, value: string])[] =>
  Object.entries(fields).flatMap(([name, value]) =>
    [value].flat().flatMap((each) => (each === null ? [] : [[name, String(each)] as const])),
  );

/** The most ids that are named. */
const mostIds = 20;

export const Confirm: FC<{ context: PageContext; of: Counted }> = ({ context: { base }, of }) => {
  const { action, count, complete, cap, fields, ids } = of;
  const title = nameOfAction[action];
  const query = filterField(fields) ?? {};
  return (
    <div class="answer">
      <h1>{`${title} many tasks`}</h1>
      <p>
        {whatItDoes(action, count, complete)} {count === 0 ? "" : whichTasks(of, query)}
      </p>
      {ids === undefined && count > cap ? (
        <noscript>
          <p class="hint">{`Without JavaScript, ${grouped(cap)} of them are changed at a go, the newest first.`}</p>
        </noscript>
      ) : (
        ""
      )}
      <form method="post" action={href(base, "/tasks/bulk")} id="confirm" data-done={doneTo[action]}>
        {pairsOf(fields).map(([name, value]) => (
          <input type="hidden" name={name} value={value} />
        ))}
        <input type="hidden" name="confirmed" value="yes" />
        {action === "edit" && count > 0 ? <Changes /> : ""}
        {count > 0 ? (
          <p class="fields">
            <label>
              <span>Reason, for those who look later</span>
              <input name="reason" maxlength={200} autocomplete="off" />
            </label>
          </p>
        ) : (
          ""
        )}
        <div class="actions">
          {count === 0 && complete ? (
            ""
          ) : (
            <button type="submit" class={action === "cancel" || action === "delete" ? "danger" : "plain"}>
              {`${title} ${complete ? tasksText(count) : "them all"}`}
            </button>
          )}
          <a class="button" href={href(base, "/tasks", { ...query })}>
            {count === 0 ? "Back to the tasks" : keepsOf(action, count)}
          </a>
        </div>
        <progress hidden max={Math.max(count, 1)} value={0} aria-label="Progress" />
        <p id="progress" class="hint" role="status" />
      </form>
    </div>
  );
};

/** What of the tasks becomes another one: a field that stays empty leaves it as it is. */
const Changes: FC = () => (
  <p class="fields">
    <Field name="queueName" label="Queue" hint="as it is" />
    <Field name="priority" label="Priority, higher runs first" hint="as it is" kind="numeric" />
    <Field name="waitUntil" label="Not before (UTC), or now" hint="as it is" />
  </p>
);

function whatItDoes(of: Bulk["action"], count: number, complete: boolean): string {
  const action = nameOfAction[of].toLowerCase();
  if (count === 0 && complete) return `No task is left that this would ${action}.`;
  if (complete) return `This will ${action} ${tasksText(count)}.`;
  return `This will ${action} all tasks that match: ${tasksText(count)} were counted in a second, and there may be more.`;
}

/** On the link that does nothing. */
const keepsOf = (action: Bulk["action"], count: number): string =>
  action === "retry" || action === "edit"
    ? `Leave ${count === 1 ? "it" : "them"} as ${count === 1 ? "it is" : "they are"}`
    : `Keep ${count === 1 ? "it" : "them"}`;

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
  q: "the text",
  from: "the time from",
  to: "the time before",
} as const satisfies Partial<Record<keyof Query, string>>;

const listed = (ids: readonly number[]): string =>
  ids.length <= mostIds
    ? joined(ids.map(String), "and")
    : `${ids.slice(0, mostIds).join(", ")} and ${grouped(ids.length - mostIds)} more`;

const joined = (words: readonly string[], word: "and" | "or"): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${word} ${words.at(-1)}`;
