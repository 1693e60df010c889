/** The repairs of a cause: what `cause.fix.action` says as a button, for the person who may do so, and its command and advice as text. */
import type { FC } from "hono/jsx";
import type { Cause, CauseAction, CauseFix } from "../../causes/methods.ts";
import type { Action } from "../access.ts";
import type { PageContext } from "../page.ts";
import { resumeQuestion } from "./parts.tsx";
import { ActionButton, href, type Question, tasksText } from "./ui.tsx";

type Context = Pick<PageContext, "base" | "access">;

const fixesOf = ({ fix, otherFix }: Pick<Cause, "fix" | "otherFix">): CauseFix[] =>
  otherFix === undefined ? [fix] : [fix, otherFix];

/** The commands that repair a cause, and what no command does. */
export const Commands: FC<{ of: Pick<Cause, "fix" | "otherFix"> }> = ({ of }) => (
  <>
    {fixesOf(of).map(({ command, advice }) => (
      <>
        {command === null ? "" : <code class="command">{command}</code>}
        {advice === null ? "" : <Advice of={advice} />}
      </>
    ))}
  </>
);

/** A part of a sentence with commands between backticks. */
export const Advice: FC<{ of: string }> = ({ of }) => (
  <small class="advice">
    {`${of.charAt(0).toUpperCase()}${of.slice(1)}.`
      .split("`")
      .map((part, n) => (n % 2 === 1 ? <code>{part}</code> : part))}
  </small>
);

export const Repair: FC<{ of: Cause; context: Context }> = ({ of: cause, context }) => {
  const actions = fixesOf(cause).flatMap(({ action }) => action ?? []);
  if (actions.length === 0) return <></>;
  return (
    <div class="actions">
      {actions.map((action) => (
        <RepairBy action={action} of={cause} context={context} />
      ))}
    </div>
  );
};

const RepairBy: FC<{ action: CauseAction; of: Cause; context: Context }> = ({
  action,
  of: cause,
  context,
}) => {
  if (action.on === "limits") return <RaiseLimit of={cause} fields={action.fields} context={context} />;
  if (action.action === "bulk") return <OnMany fields={action.fields} context={context} />;
  const { needs, to, fields, name, kind, asks } = buttonOf(cause, action, context);
  if (!context.access.may(needs)) return <></>;
  const queue = cause.kind === "paused" && context.access.may("limit") ? cause.queueName : undefined;
  return (
    <>
      <ActionButton
        context={context}
        needs={needs}
        to={to}
        fields={fields}
        kind={kind}
        {...(asks === undefined ? {} : { asks })}
      >
        {name}
      </ActionButton>
      {queue === undefined ? (
        ""
      ) : (
        <a class="button" href={`${href(context.base, "/queues/detail", { name: queue })}#set-limit`}>
          Set its limit first…
        </a>
      )}
    </>
  );
};

/** Opens the page that counts the tasks, and asks. */
const OnMany: FC<{ fields: Record<string, string>; context: Context }> = ({ fields, context }) =>
  context.access.may("cancel") ? (
    <form method="post" action={href(context.base, "/tasks/bulk")}>
      {Object.entries({ ...fields, scope: "filter" }).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <button type="submit" class="danger">
        Cancel the waiting tasks…
      </button>
    </form>
  ) : (
    <></>
  );

interface Button {
  needs: Action;
  to: string;
  fields: Record<string, string>;
  name: string;
  kind: "plain" | "danger";
  asks?: Question | undefined;
}

/** Where an action is sent to. A name may be `..`, so it stands in the query. */
function buttonOf(cause: Cause, { on, action, fields }: CauseAction, context: Context): Button {
  if (on === "tasks") {
    const { id = "", ...rest } = fields;
    return {
      ...{ needs: "cancel", to: `/api/tasks/${id}/${action}`, fields: rest, name: "Cancel the task…" },
      kind: "danger",
      asks: {
        text: `Cancel task ${id}? Its function gets the signal within a second, and its work so far may stay half done.`,
        does: "Cancel the task",
        keeps: "Keep it",
      },
    };
  }
  const { name = "", group, ...rest } = fields;
  const to = href("", `/api/${on}/${action}`, { name, group });
  if (on === "schedules") {
    const edits = action === "edit";
    return {
      ...{ needs: "schedule", to, fields: rest, kind: "plain" },
      name: edits ? "Skip while one runs…" : "Pause the schedule…",
      asks: {
        text: edits
          ? `Let the schedule ${name} skip a time while an earlier task of it has not ended? Those that wait stay.`
          : `Pause the schedule ${name}? It makes no tasks until it is resumed; the times that pass meanwhile are skipped.`,
        does: edits ? "Skip such times" : "Pause the schedule",
        keeps: edits ? "Let them pile up" : "Let it run",
      },
    };
  }
  const what = group === undefined ? on.slice(0, -1) : "group";
  const shown = group === undefined ? `the ${what} ${name}` : `the group ${group} of ${name}`;
  if (action === "resume")
    return {
      ...{ needs: "resume", to, fields: rest, kind: "plain", name: `Resume the ${what}` },
      asks: resumeQuestion(
        shown,
        {
          target: on === "queues" ? { queueName: name } : { func: name },
          pending: cause.tasks ?? 0,
          oldestAge: cause.oldestAge ?? null,
        },
        context,
      ),
    };
  return {
    ...{ needs: "pause", to, fields: rest, kind: "plain", name: `Pause the ${what}…` },
    asks: {
      text: `Pause ${shown}? Its tasks wait until it is resumed; those that run go on.`,
      does: `Pause the ${what}`,
      keeps: "Let it run",
    },
  };
}

/** The fields of the limit, with the values by which all that waits starts soon. A person may change them before. */
const RaiseLimit: FC<{ of: Cause; fields: Record<string, string>; context: Context }> = ({
  of: cause,
  fields,
  context: { access, base },
}) => {
  if (!access.may("limit")) return <></>;
  const { concurrency, rate, ...rest } = fields;
  return (
    <form method="post" action={href(base, "/api/limits")} class="action actions raises">
      {Object.entries(rest).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      {concurrency === undefined ? (
        ""
      ) : (
        <label>
          <span>Running at once</span>
          <input name="concurrency" inputmode="numeric" value={concurrency} size={5} autocomplete="off" />
        </label>
      )}
      {rate === undefined ? (
        ""
      ) : (
        <label>
          <span>Starts</span>
          <input name="rate" value={rate} size={9} autocomplete="off" />
        </label>
      )}
      <button type="submit">
        {`Raise the limit${cause.tasks === undefined ? "" : ` for ${tasksText(cause.tasks)}`}`}
      </button>
    </form>
  );
};
