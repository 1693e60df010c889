/** Limits: what each is about, how much of it is used, and the form that sets one. */
import type { FC } from "hono/jsx";
import { mostWaiting } from "../../limits/contract.ts";
import type { LimitInfo } from "../../limits/methods.ts";
import type { PageContext } from "../page.ts";
import { byName, Field, head, PauseOrResume, rateText, resumeQuestion, Slots } from "./parts.tsx";
import { ActionButton, Count, grouped, href, Name, Nothing, Status, Table, Time } from "./ui.tsx";

/** Sorts limits by how much they hold tasks back: paused limits, then full ones, then the others, each by name. */
export function inOrder(limits: readonly LimitInfo[]): LimitInfo[] {
  const urgency = (limit: LimitInfo) => (limit.pausedAt !== null ? 0 : isFull(limit) ? 1 : 2);
  const named = ({ target }: LimitInfo) => {
    const { name, group = "" } = partsOf(target);
    return [name, group] as const;
  };
  return [...limits].sort((a, b) => {
    const [[name, group], [other, ofOther]] = [named(a), named(b)];
    return urgency(a) - urgency(b) || byName(name, other) || byName(group, ofOther);
  });
}

/** Whether no more of its tasks may start now. Of a function with groups, one of them may be full: that is not known. */
const isFull = ({ concurrency, running, hasGroups, nextFreeAt }: LimitInfo): boolean =>
  nextFreeAt !== null || (concurrency !== null && !hasGroups && running >= concurrency);

export const Limits: FC<{ limits: readonly LimitInfo[]; context: PageContext }> = ({ limits, context }) => (
  <Table
    label="Limits"
    isCards
    heads={[
      "Limit of",
      head("Running"),
      head("Waiting"),
      head("Put off"),
      "Rate",
      "Next start",
      "State",
      ...(mayAct(context) ? ["Actions"] : []),
    ]}
  >
    {limits.map((limit) => (
      <LimitRow limit={limit} context={context} />
    ))}
  </Table>
);

const mayAct = ({ access }: PageContext) =>
  access.may("limit") || access.may("pause") || access.may("resume");

const LimitRow: FC<{ limit: LimitInfo; context: PageContext }> = ({ limit, context }) => {
  const { fromCode, rate, waiting, hasGroups, nextFreeAt, pausedAt } = limit;
  return (
    <tr>
      <th scope="row" class="name">
        <Target limit={limit} base={context.base} />
        {fromCode ? <small>set by the code</small> : ""}
      </th>
      <td class="number" data-label="Running">
        <InUse limit={limit} />
      </td>
      <td class="number" data-label="Waiting">
        <UpTo most={mostWaiting} of={waiting} />
      </td>
      <td class="number" data-label="Put off">
        <PutOffBy limit={limit} />
      </td>
      <td class="nowrap" data-label="Rate">
        {rate === null ? <Nothing /> : rateText(rate)}
        {rate !== null && hasGroups ? <small>for each group</small> : ""}
      </td>
      <td class="nowrap" data-label="Next start">
        {nextFreeAt === null ? <Nothing /> : <Time at={nextFreeAt} />}
      </td>
      <td class="nowrap" data-label="State">
        <Paused at={pausedAt} />
      </td>
      {mayAct(context) ? <Acts limit={limit} context={context} /> : ""}
    </tr>
  );
};

const Acts: FC<{ limit: LimitInfo; context: PageContext }> = ({ limit, context }) => {
  const { fromCode, concurrency, rate, waiting, pausedAt } = limit;
  const { about, name, group } = partsOf(limit.target);
  const isLimit = concurrency !== null || rate !== null;
  return (
    <td class="acts">
      {typeof limit.target === "string" || "queueName" in limit.target ? (
        ""
      ) : (
        <PauseOrResume
          target={limit.target}
          isPaused={pausedAt !== null}
          context={context}
          asks={resumeQuestion(
            targetText(limit.target),
            { target: limit.target, pending: waiting ?? 0, oldestAge: null },
            context,
          )}
        />
      )}
      {fromCode || !isLimit || !context.access.may("limit") ? (
        ""
      ) : (
        <ActionButton
          context={context}
          needs="limit"
          to="/api/limits"
          fields={{ about, name, ...(group === undefined ? {} : { group }), remove: "yes" }}
          asks={{
            text: `Remove the limit of ${targetText(limit.target)}? Tasks that wait for it start as soon as a worker has a free slot.`,
            does: "Remove the limit",
            keeps: "Keep it",
          }}
          kind="danger"
        >
          Remove
        </ActionButton>
      )}
    </td>
  );
};

const Paused: FC<{ at: Date | null }> = ({ at }) =>
  at === null ? (
    <Nothing />
  ) : (
    <>
      <Status is="paused" /> <Time at={at} />
    </>
  );

const PutOffBy: FC<{ limit: LimitInfo }> = ({ limit: { putOff, putOffSince } }) => (
  <>
    <UpTo most={mostWaiting} of={putOff} />
    {putOffSince === null ? (
      ""
    ) : (
      <small>
        since <Time at={putOffSince} />
      </small>
    )}
  </>
);

/** A number that was counted up to a bound; nothing where it is not known. */
const UpTo: FC<{ of: number | null; most: number }> = ({ of, most }) =>
  of === null ? <Nothing /> : <Count of={of} atLeast={of >= most} />;

/** How many tasks run, of how many that may. A function's limit is one of each of its groups: their sum has none. */
const InUse: FC<{ limit: LimitInfo }> = ({ limit: { concurrency, running, hasGroups } }) => {
  if (concurrency === null) return <>{grouped(running)}</>;
  if (!hasGroups) return <Slots used={running} of={concurrency} isLimit />;
  return (
    <>
      {grouped(running)}
      <small>{`${grouped(concurrency)} for each group`}</small>
    </>
  );
};

/** The fields of a form that name the target of a limit. */
function partsOf(target: LimitInfo["target"]): {
  about: "name" | "queue" | "func";
  name: string;
  group?: string;
} {
  if (typeof target === "string") return { about: "name", name: target };
  if ("queueName" in target) return { about: "queue", name: target.queueName };
  return { about: "func", name: target.func, ...(target.group === undefined ? {} : { group: target.group }) };
}

function targetText(target: LimitInfo["target"]): string {
  const { about, name, group } = partsOf(target);
  if (about === "name") return `the shared name ${name}`;
  if (about === "queue") return `the queue ${name}`;
  return group === undefined ? `the function ${name}` : `the group ${group} of ${name}`;
}

const Target: FC<{ limit: LimitInfo; base: string }> = ({ limit: { target }, base }) => {
  const { about, name, group } = partsOf(target);
  if (about === "name")
    return (
      <>
        <Name of={name} /> <small>shared name</small>
      </>
    );
  const query = about === "queue" ? { queue: name } : { func: name, group };
  return (
    <>
      <Name of={group ?? name} to={href(base, "/tasks", query)} />{" "}
      <small>
        {about === "queue" ? "queue" : group === undefined ? "function" : <Name of={`group of ${name}`} />}
      </small>
    </>
  );
};

/** @param of what the limit is about; a person says it where it is left out */
export const SetLimit: FC<{
  of?: { about: "queue" | "func"; name: string };
  context: Pick<PageContext, "base">;
}> = ({ of, context: { base } }) => (
  <details id="set-limit" class="more" open={of !== undefined}>
    <summary>Set a limit</summary>
    <form method="post" action={href(base, "/api/limits")} class="action fields">
      {of === undefined ? <Whose /> : <input type="hidden" name="about" value={of.about} />}
      {of === undefined ? (
        <Field name="name" label="Its name" required />
      ) : (
        <input type="hidden" name="name" value={of.name} />
      )}
      {of?.about === "queue" ? (
        ""
      ) : (
        <Field name="group" label="Group of a function" hint="all groups, each" />
      )}
      <Field name="concurrency" label="Running at once" hint="no limit" kind="numeric" />
      <Field name="rate" label="Starts, such as 100/1m" hint="no limit" />
      <Field name="burst" label="Starts at once" hint="1" kind="numeric" />
      <button type="submit">Set</button>
    </form>
    <p class="hint">
      It replaces the limit that this queue, function, group or name has. Tasks that run beyond it go on.
    </p>
  </details>
);

const Whose: FC = () => (
  <label>
    <span>Limit of a</span>
    <select name="about">
      <option value="queue">queue</option>
      <option value="func">function</option>
      <option value="name">shared name</option>
    </select>
  </label>
);
