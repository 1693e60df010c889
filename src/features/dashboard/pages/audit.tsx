/** What people did in the dashboard: who, what, to how many tasks, and when. */
import type { FC } from "hono/jsx";
import type { AuditEntry } from "../../look/contract.ts";
import { BadQuery, type Page, type PageContext } from "../page.ts";
import { head } from "./parts.tsx";
import { Empty, grouped, href, Name, Nothing, Panel, Table, Time } from "./ui.tsx";

/** The most rows that are read, and that the page shows. */
const most = 1_000;
const shown = 200;

/** Milliseconds between two steps of one action on many tasks. */
const stepsApart = 60_000;

export interface AuditData {
  /** Newest first. The steps of one action on many tasks are one entry. */
  entries: AuditEntry[];
  /** The person or the target that was asked for. */
  query: { actor?: string; target?: string };
}

async function load({ look, query }: PageContext): Promise<AuditData> {
  const [actor, target] = [query.get("actor") || undefined, query.get("target") || undefined];
  if (target !== undefined && target.length > 255)
    throw new BadQuery(`target: expected 255 characters at most, got ${target.length}`);
  const found = await look.notes(target, most);
  const own = actor === undefined ? found : found.filter((entry) => entry.actor === actor);
  return {
    entries: joined(own).slice(0, shown),
    query: { ...(actor === undefined ? {} : { actor }), ...(target === undefined ? {} : { target }) },
  };
}

/** An action on all tasks that match is taken step by step: each step is a row. */
export function joined(rows: readonly AuditEntry[]): AuditEntry[] {
  const entries: AuditEntry[] = [];
  let last = Number.POSITIVE_INFINITY;
  for (const row of rows) {
    const entry = entries.at(-1);
    const isStep =
      entry !== undefined &&
      row.target.startsWith("tasks with ") &&
      entry.actor === row.actor &&
      entry.action === row.action &&
      entry.reason === row.reason &&
      entry.target === row.target &&
      last - row.at <= stepsApart;
    if (isStep) entry.count += row.count;
    else entries.push({ ...row });
    last = row.at;
  }
  return entries;
}

export const audit: Page<AuditData> = {
  path: "/audit",
  menu: "Audit",
  accepts: ["actor", "target"],
  title: () => "What people did",
  load,
  view: ({ entries, query }, context) => (
    <>
      <h1>
        What people did
        {query.actor === undefined ? "" : <small>{`by ${query.actor}`}</small>}
        {query.target === undefined ? "" : <small>{`to ${query.target}`}</small>}
      </h1>
      <Panel
        title="Actions"
        id="audit"
        note={Object.keys(query).length === 0 ? "" : <a href={href(context.base, "/audit")}>All actions</a>}
      >
        {entries.length === 0 ? (
          <Empty>
            Nobody has done anything here. Each action of the dashboard that changes something is kept.
          </Empty>
        ) : (
          <Rows entries={entries} base={context.base} />
        )}
        {entries.length === shown ? <p class="hint">{`The newest ${shown} are shown.`}</p> : ""}
      </Panel>
    </>
  ),
};

const Rows: FC<{ entries: readonly AuditEntry[]; base: string }> = ({ entries, base }) => (
  <Table label="Actions" isCards heads={["When", "Who", "Action", "On", head("Changed"), "Why"]}>
    {entries.map(({ at, actor, action, target, count, reason }) => {
      const task = /^task (\d+)$/.exec(target)?.[1];
      return (
        <tr>
          <td data-label="When">
            <Time at={new Date(at)} />
          </td>
          <td class="name" data-label="Who">
            {actor === null ? <Nothing /> : <Name of={actor} to={href(base, "/audit", { actor })} />}
          </td>
          <td data-label="Action">{action}</td>
          <td class="name" data-label="On">
            <Name of={target} to={task ? href(base, `/tasks/${task}`) : href(base, "/audit", { target })} />
          </td>
          <td class="number" data-label="Changed">
            {grouped(count)}
          </td>
          <td class="text" data-label="Why">
            {reason === null ? <Nothing /> : <Name of={reason} />}
          </td>
        </tr>
      );
    })}
  </Table>
);
