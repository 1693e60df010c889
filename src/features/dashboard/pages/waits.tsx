/** What a task waits for, in words. */
import type { FC } from "hono/jsx";
import { printable } from "../../../base/text/escapes.ts";
import type { RunWait } from "../../workflows/methods.ts";
import { href, Time } from "./ui.tsx";

/** Tasks, events and times that are named. */
const mostNamed = 5;

/** An event's name as it fits among other words. */
const shortened = (name: string): string => (name.length > 60 ? `${name.slice(0, 59)}…` : name);

/** @param link where a task for which it waits is shown */
export const Waits: FC<{ of: readonly RunWait[]; base: string; link: "/tasks" | "/workflows" }> = ({
  of,
  base,
  link,
}) => {
  const children = of.filter(({ kind }) => kind === "child");
  const others = of.filter(({ kind }) => kind !== "child");
  return (
    <ul class="waits">
      {others.slice(0, mostNamed).map((wait) => (
        <li>
          <Awaited wait={wait} base={base} />
        </li>
      ))}
      {others.length > mostNamed ? <li>and others</li> : ""}
      {children.length === 0 ? (
        ""
      ) : (
        <li>
          {children.length === 1 ? "waits for task " : "waits for the tasks "}
          {children.slice(0, mostNamed).map(({ target }, i) => (
            <>
              {i === 0 ? "" : ", "}
              <a href={href(base, `${link}/${target}`)}>{target}</a>
            </>
          ))}
          {children.length > mostNamed ? " and others" : ""}
        </li>
      )}
    </ul>
  );
};

const Awaited: FC<{ wait: RunWait; base: string }> = ({ wait: { kind, target, deadline }, base }) =>
  kind === "time" ? (
    <>
      {"sleeps: it is over "}
      <Time at={deadline} />
    </>
  ) : (
    <>
      {"waits for the event "}
      <a href={href(base, "/workflows", { event: target ?? "" })} title={printable(target ?? "")}>
        {shortened(target ?? "")}
      </a>
      {deadline === null ? "" : ", or until "}
      {deadline === null ? "" : <Time at={deadline} />}
    </>
  );
