/** The parts that pages are made of. */
import type { Child, FC, PropsWithChildren } from "hono/jsx";
import { printable } from "../../../base/text/escapes.ts";
import type { TaskStatus } from "../../../task.ts";
import type { Action } from "../access.ts";
import type { PageContext } from "../page.ts";

/** A time in UTC; the script in the browser makes "12 s ago" of it, with the local time as its title. */
export const Time: FC<{ at: Date | null | undefined }> = ({ at }) => {
  if (!at) return <Nothing />;
  // Another program has written what no `Date` can hold.
  if (Number.isNaN(at.getTime())) return <>not a time</>;
  return <time datetime={at.toISOString()}>{`${at.toISOString().slice(0, 19).replace("T", " ")} UTC`}</time>;
};

export const Nothing: FC = () => <span class="nothing">–</span>;

/** Milliseconds in words. */
export function span(ms: number): string {
  if (ms < 1) return ms <= 0 ? "0 ms" : `${ms.toPrecision(1)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
  return `${Math.floor(ms / 86_400_000)} d ${Math.floor((ms % 86_400_000) / 3_600_000)} h`;
}

export const Span: FC<{ ms: number | null | undefined }> = ({ ms }) =>
  ms === null || ms === undefined ? <Nothing /> : <>{span(ms)}</>;

export const grouped = (count: number): string => count.toLocaleString("en-US");

/** Such as `1.0 MB`. */
export function bytesText(bytes: number): string {
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(bytes < 10_000 ? 1 : 0)} kB`;
  return `${(bytes / 1_000_000).toFixed(bytes < 10_000_000 ? 1 : 0)} MB`;
}

/** Such as `1 task` and `1,005 tasks`. */
export const tasksText = (count: number): string => `${grouped(count)} ${count === 1 ? "task" : "tasks"}`;

export const slotsText = (count: number): string => `${grouped(count)} ${count === 1 ? "slot" : "slots"}`;

/** What was done to tasks, as a sentence says it after their number. */
export const doneTo = {
  retry: "retried",
  edit: "changed",
  cancel: "cancelled",
  delete: "deleted",
} as const;

/** What an action on tasks is called on a button. */
export const nameOfAction = { retry: "Retry", edit: "Change", cancel: "Cancel", delete: "Delete" } as const;

/** A number that may be a lower bound. */
export const Count: FC<{ of: number; atLeast?: boolean }> = ({ of, atLeast = false }) => (
  <>{`${grouped(of)}${atLeast ? "+" : ""}`}</>
);

export const Status: FC<{ is: TaskStatus | "alive" | "frozen" | "silent" | "dead" | "paused" }> = ({
  is,
}) => <span class={`status ${is}`}>{is}</span>;

export const Panel: FC<PropsWithChildren<{ title: string; note?: Child; id?: string }>> = ({
  title,
  note,
  id,
  children,
}) => (
  <section class="panel" id={id}>
    <h2>
      {title}
      {note ? <small>{note}</small> : ""}
    </h2>
    {children}
  </section>
);

/** Says that there is nothing, and what would make something appear. */
export const Empty: FC<PropsWithChildren> = ({ children }) => <p class="empty">{children}</p>;

export const Facts: FC<{ facts: readonly (readonly [name: string, value: Child])[] }> = ({ facts }) => (
  <dl class="facts">
    {facts.map(([name, value]) => (
      <div>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

/** A name that a person has given: a long one is cut after some lines, and is its own title. */
export const Name: FC<{ of: string; to?: string }> = ({ of, to }) => {
  const title = of.length > 40 ? printable(of) : undefined;
  return to === undefined ? (
    <bdi class="clamp" title={title}>
      {of}
    </bdi>
  ) : (
    <a class="clamp" href={to} title={title}>
      {of}
    </a>
  );
};

/**
 * A table that scrolls by itself where it is wider than the page. `isCards`: on a narrow screen each row is a card, where the
 * `data-label` of a cell names it.
 */
export const Table: FC<PropsWithChildren<{ heads: readonly Child[]; label: string; isCards?: boolean }>> = ({
  heads,
  label,
  isCards = false,
  children,
}) => (
  <section class="scrolls" aria-label={label} tabindex={0}>
    <table class={isCards ? "cards" : undefined}>
      <thead>
        <tr>
          {heads.map((head) => (
            <th scope="col">{head}</th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </section>
);

/** The address of a page: `path` begins with a slash. */
export const href = (base: string, path: string, query: Record<string, string | undefined> = {}): string => {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const search = new URLSearchParams(given).toString();
  return `${base}${path}${search === "" ? "" : `?${search}`}`;
};

/** What a person confirms before an action, with a reason if they like: both buttons say what then happens. */
export interface Question {
  text: string;
  /** On the button that does it, such as `Cancel the task`. */
  does: string;
  /** On the button that does nothing, such as `Keep it`. */
  keeps: string;
  /** What a person may rather do first: a link to a page. */
  instead?: { text: string; to: string };
}

/** The attributes of a form by which the script asks this question. */
export const asking = (question: Question | undefined) =>
  question === undefined
    ? {}
    : {
        "data-asks": question.text,
        "data-does": question.does,
        "data-keeps": question.keeps,
        ...(question.instead && {
          "data-instead": question.instead.text,
          "data-instead-to": question.instead.to,
        }),
      };

/** A button that asks for an action, if the person may. Without a script it is a form that shows an answer of its own. */
export const ActionButton: FC<
  PropsWithChildren<{
    context: Pick<PageContext, "base" | "access">;
    needs: Action;
    to: string;
    fields?: Readonly<Record<string, string>>;
    kind?: "plain" | "danger";
    asks?: Question;
  }>
> = ({ context, needs, to, fields = {}, kind = "plain", asks, children }) =>
  context.access.may(needs) ? (
    <form method="post" action={href(context.base, to)} class="action" {...asking(asks)}>
      {Object.entries(fields).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <button type="submit" class={kind}>
        {children}
      </button>
    </form>
  ) : (
    <></>
  );

/** Small bars without axes, one for each part of a time: no script is needed. @param label what they show, for who does not see them */
export const Spark: FC<{ counts: readonly number[]; label: string }> = ({ counts, label }) => {
  const most = Math.max(...counts, 1);
  const height = (count: number) => (count === 0 ? 1 : Math.max(2, Math.round((count / most) * 22)));
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${counts.length * 4} 22`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {counts.map((count, i) => (
        <rect
          class={count === 0 ? "none" : undefined}
          x={String(i * 4)}
          y={String(22 - height(count))}
          width="3"
          height={String(height(count))}
        />
      ))}
    </svg>
  );
};

/** A chart: the script draws the points; without it, the table is there. */
export const Chart: FC<{
  id: string;
  label: string;
  unit: "count" | "ms";
  series: readonly { name: string; color: string; values: readonly (number | null)[] }[];
  times: readonly Date[];
}> = ({ id, label, unit, series, times }) => (
  <figure
    class="chart"
    id={id}
    data-unit={unit}
    data-times={JSON.stringify(times.map((at) => at.getTime() / 1_000))}
    data-series={JSON.stringify(series)}
  >
    <figcaption>
      {label}
      {series.map(({ name, color }) => (
        <span class={`key ${color}`}>{name}</span>
      ))}
    </figcaption>
    <div class="plot" aria-hidden="true" />
    <details id={`${id}-table`}>
      <summary>As a table</summary>
      <Table heads={["Time", ...series.map(({ name }) => <span class="number">{name}</span>)]} label={label}>
        {times.map((at, i) => (
          <tr>
            <td>{at.toISOString().slice(0, 16).replace("T", " ")}</td>
            {series.map(({ values }) => (
              <td class="number">{shownAs(values[i] ?? null, unit)}</td>
            ))}
          </tr>
        ))}
      </Table>
    </details>
  </figure>
);

const shownAs = (value: number | null, unit: "count" | "ms"): string => {
  if (value === null) return "–";
  return unit === "ms" ? span(value) : grouped(value);
};
