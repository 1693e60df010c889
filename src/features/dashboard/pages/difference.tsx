/** What differs between the arguments of a task and those of the task that it was copied from. */
import type { FC } from "hono/jsx";
import type { AuditEntry } from "../../look/contract.ts";
import { type Difference, differences } from "../json-text.ts";
import type { PageContext } from "../page.ts";
import { Empty, href, Nothing, Panel, Table } from "./ui.tsx";

/** Differences that are shown. */
const most = 50;

/** What `dbq_audit` has of a task that a person has copied from another one. */
export const copyOf = (id: number): string => `copy of task ${id}`;

export interface Copied {
  /** The task that it was copied from. */
  from: number;
  /** `null`: they cannot be compared, since that task is gone, or not all of the arguments is shown. */
  differences: Difference[] | null;
}

interface Compared {
  args: string | null;
  kwargs: string | null;
}

/**
 * Where a task was copied from, and how its arguments differ; `null`: it is no copy.
 * @param read the JSON of a task as the person may see it; undefined where not all of it is there
 */
export async function copiedFrom(
  notes: readonly Pick<AuditEntry, "action">[],
  own: Compared | undefined,
  read: (id: number) => Promise<Compared | undefined>,
): Promise<Copied | null> {
  const from = notes.flatMap(({ action }) => /^copy of task (\d+)$/.exec(action)?.[1] ?? []).at(0);
  if (from === undefined) return null;
  const before = await read(Number(from));
  const found = before && own && differences(textOf(before), textOf(own), most);
  return { from: Number(from), differences: found ?? null };
}

/** Arguments and keyword arguments as one text, whose paths begin with `args` and `kwargs`. */
const textOf = ({ args, kwargs }: Compared): string => `{"args":${args ?? "[]"},"kwargs":${kwargs ?? "{}"}}`;

export const CopiedFrom: FC<{ of: Copied | null; context: PageContext }> = ({ of, context: { base } }) => {
  if (of === null) return <></>;
  const note = <a href={href(base, `/tasks/${of.from}`)}>{`task ${of.from}`}</a>;
  return (
    <Panel title="Copied from" note={note} id="copied">
      {of.differences === null ? (
        <Empty>Their arguments cannot be compared: that task is deleted, or not all of them is shown.</Empty>
      ) : of.differences.length === 0 ? (
        <Empty>It has the same arguments.</Empty>
      ) : (
        <Differences of={of.differences} from={of.from} />
      )}
    </Panel>
  );
};

const Differences: FC<{ of: readonly Difference[]; from: number }> = ({ of, from }) => (
  <>
    <Table label="Arguments that differ" heads={["Where", `In task ${from}`, "Here"]}>
      {of.map(({ path, before, after }) => (
        <tr>
          <th scope="row" class="name">
            <code>{path.replace(/^\./, "")}</code>
          </th>
          <td class="text">{before ?? <Nothing />}</td>
          <td class="text">{after ?? <Nothing />}</td>
        </tr>
      ))}
    </Table>
    {of.length === most ? <p class="hint">{`The first ${most} are shown.`}</p> : ""}
  </>
);
