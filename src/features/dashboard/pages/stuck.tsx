/** "What is wrong" of the overview: a line for each cause with its repair as a button, the worst and those that hold most tasks back first. */
import type { Child, FC } from "hono/jsx";
import type { WorkerHealth } from "../../../base/tasks/worker-health.ts";
import { groupBy } from "../../../base/values/group-by.ts";
import type { Cause as FoundCause } from "../../causes/methods.ts";
import type { Health, HealthOfQueue, Pause, UnclaimedTasks } from "../../inspect/methods.ts";
import type { PageContext } from "../page.ts";
import { whyNotAlive, workerName } from "./parts.tsx";
import { Advice, Commands, Repair } from "./repair.tsx";
import { Empty, grouped, href, Panel, span, Time, tasksText } from "./ui.tsx";

/** A task that waits for longer than this is worth a line. Milliseconds. */
const longWait = 60_000;

/** The most pauses of functions and groups that are listed. */
const mostPauses = 100;

/** Workers that are not alive have a line each, up to so many; more share one. */
const mostWorkers = 2;

/** Something that is wrong, as a row of the panel. */
interface Line {
  /** `null`: it is worth knowing, and not wrong for long enough to be a cause. */
  severity: "warning" | "critical" | null;
  /** How many tasks wait for it; 0 where they are not counted. */
  tasks: number;
  line: Child;
  /** Its repairs. */
  repair?: Child;
}

interface StuckProps {
  health: Health;
  causes: readonly FoundCause[];
  /** Nothing has ever happened here. */
  isNew: boolean;
  context: Pick<PageContext, "base" | "access">;
}

export const Stuck: FC<StuckProps> = (props) => {
  const lines = linesOf(props).sort((a, b) => urgency(a) - urgency(b) || b.tasks - a.tasks);
  return (
    <Panel title="What is wrong" id="stuck" note={lines.length > 0 ? <Severities of={lines} /> : undefined}>
      {lines.length > 0 ? (
        <Lines lines={lines} />
      ) : props.isNew ? (
        <Start />
      ) : (
        <Empty>Nothing is wrong.</Empty>
      )}
    </Panel>
  );
};

const urgency = ({ severity }: Line): number =>
  severity === "critical" ? 0 : severity === "warning" ? 1 : 2;

/** How many there are of each severity, as small pills. */
const Severities: FC<{ of: readonly Line[] }> = ({ of }) => (
  <>
    {(["critical", "warning"] as const).map((severity) => {
      const count = of.filter((line) => line.severity === severity).length;
      return count === 0 ? "" : <span class={`status ${severity}`}>{`${grouped(count)} ${severity}`}</span>;
    })}
  </>
);

/** The causes, and what the health shows beside them. */
function linesOf({ health, causes, context }: StuckProps): Line[] {
  const { queues, deadWorkers, unservedFunctions, pauses } = health;
  const { base } = context;
  const of = (kind: FoundCause["kind"]) => causes.filter((cause) => cause.kind === kind);
  const told = new Set([
    ...causes.flatMap(({ queueName }) => queueName ?? []),
    ...unservedFunctions.map(({ queueName }) => queueName),
    ...queues.filter(({ pausedAt }) => pausedAt !== null).map(({ name }) => name),
  ]);
  const frozen = new Set(of("frozen").map(({ workerId }) => workerId));
  const paused = of("paused");
  const isTold = (name: string) => paused.some(({ queueName }) => queueName === name);
  const plain = (line: Child, tasks = 0): Line => ({ severity: null, tasks, line });
  return [
    ...causes
      .filter(
        (cause) => cause.kind !== "unserved" || !unservedFunctions.some((tasks) => isThat(tasks, cause)),
      )
      .map((cause) => lineOf(cause, context)),
    ...unservedLines(unservedFunctions, queues, of("unserved"), base),
    ...deadLines(
      deadWorkers.filter(({ id }) => !frozen.has(id)),
      base,
    ).map((line) => plain(line)),
    ...queues
      .filter(({ name, pausedAt }) => pausedAt !== null && !isTold(name))
      .map((queue) => plain(<PausedQueue queue={queue} base={base} />, queue.pending)),
    ...queues
      .filter(({ name, oldestPendingAge }) => !told.has(name) && (oldestPendingAge ?? 0) > longWait)
      .map((queue) => plain(<SlowQueue queue={queue} base={base} />, queue.pending)),
    ...pauseLines(
      pauses.filter(({ target }) => !paused.some((cause) => isOf(cause, target))),
      base,
    ).map((line) => plain(line)),
  ];
}

const isOf = ({ func, group }: FoundCause, target: Pause["target"]): boolean =>
  "func" in target && target.func === func && target.group === group;

const lineOf = (cause: FoundCause, context: StuckProps["context"]): Line => ({
  severity: cause.severity,
  tasks: cause.tasks ?? 0,
  line: <Why cause={cause} base={context.base} />,
  repair: <Repair of={cause} context={context} />,
});

// ---- functions that no worker takes ----------------------------------------------------------

/** The functions of a queue without a worker share a line; each other function has one of its own. */
function unservedLines(
  unserved: readonly UnclaimedTasks[],
  queues: readonly HealthOfQueue[],
  causes: readonly FoundCause[],
  base: string,
): Line[] {
  const lonely = new Set(queues.filter(({ workers }) => workers === 0).map(({ name }) => name));
  const groups = groupBy(unserved, ({ queueName, func }) =>
    JSON.stringify(lonely.has(queueName) ? [queueName] : [queueName, func]),
  );
  const isCause = (tasks: UnclaimedTasks) => causes.some((cause) => isThat(tasks, cause));
  return [...groups.values()].map((all) => ({
    severity: all.some(isCause) ? "critical" : null,
    tasks: all.reduce((sum, { tasks }) => sum + tasks, 0),
    line: lonely.has(all[0]?.queueName ?? "") ? (
      <UnservedQueue functions={all} base={base} />
    ) : (
      all.map((each) => <Unserved of={each} base={base} />)
    ),
  }));
}

const isThat = ({ queueName, func }: UnclaimedTasks, cause: FoundCause): boolean =>
  cause.queueName === queueName && cause.func === func;

const UnservedQueue: FC<{ functions: readonly UnclaimedTasks[]; base: string }> = ({ functions, base }) => {
  const [{ queueName, func, reason, advice } = noTasks] = functions;
  const tasks = functions.reduce((sum, each) => sum + each.tasks, 0);
  const longest = Math.max(...functions.map(({ pendingFor }) => pendingFor ?? 0));
  return (
    <>
      {"Queue "}
      <a href={href(base, "/tasks", { queue: queueName, status: "pending" })}>{queueName}</a>
      {`: ${counted(tasks)} of `}
      {functions.length === 1 ? <bdi>{func}</bdi> : `${grouped(functions.length)} functions`}
      {` not taken for ${span(longest)}, since ${reason}. `}
      <Advice of={advice} />
    </>
  );
};

const noTasks = { queueName: "", func: "", reason: "", advice: "" };

const Unserved: FC<{ of: UnclaimedTasks; base: string }> = ({ of, base }) => {
  const { func, queueName, tasks, pendingFor, reason, advice } = of;
  return (
    <>
      <a href={href(base, "/tasks", { func, queue: queueName, status: "pending" })}>{func}</a>
      {" in "}
      <bdi>{queueName}</bdi>
      {`: ${counted(tasks)} not taken${pendingFor === null ? "" : ` for ${span(pendingFor)}`}, since ${reason}. `}
      <Advice of={advice} />
    </>
  );
};

// ---- workers ---------------------------------------------------------------------------------

/** What happens to the tasks of a worker that is not alive. */
const fate = {
  alive: "",
  silent: "Its tasks are freed when it has certainly ended.",
  dead: "The next live worker frees its tasks.",
} as const;

function deadLines(workers: readonly WorkerHealth[], base: string): Child[] {
  if (workers.length <= mostWorkers)
    return workers.map((worker) => (
      <>
        <a href={href(base, "/workers")}>{workerName(worker)}</a>
        {` is ${worker.liveness}: ${whyNotAlive(worker)}. ${fate[worker.liveness]}`}
      </>
    ));
  const named = workers.slice(0, mostWorkers).map(workerName).join("; ");
  return [
    <>
      <a href={href(base, "/workers")}>{`${grouped(workers.length)} workers`}</a>
      {` are silent or dead: ${named}; and ${grouped(workers.length - mostWorkers)} more.`}
    </>,
  ];
}

// ---- causes ------------------------------------------------------------------------------------

/** Why, with a link to what it is about. */
const Why: FC<{ cause: FoundCause; base: string }> = ({ cause, base }) => {
  const why = `${cause.why.charAt(0).toUpperCase()}${cause.why.slice(1)}`;
  const place = placeOf(cause, base);
  return (
    <>
      {place === undefined ? <bdi>{why}</bdi> : <a href={place}>{why}</a>}
      {". "}
      <Commands of={cause} />
    </>
  );
};

/** The page on which a cause can be looked into. */
function placeOf({ kind, taskId, func, queueName, schedule }: FoundCause, base: string): string | undefined {
  if (taskId !== undefined) return href(base, `/tasks/${taskId}`);
  if (schedule !== undefined) return href(base, "/schedules");
  if (kind === "frozen" || kind === "crashing") return href(base, "/workers");
  if (kind === "failing") return href(base, "/failures", { func });
  if (func !== undefined) return href(base, "/functions/detail", { name: func });
  if (queueName !== undefined) return href(base, "/queues/detail", { name: queueName });
  return kind === "limited" ? href(base, "/queues") : undefined;
}

// ---- pauses and slow queues ------------------------------------------------------------------

const PausedQueue: FC<{ queue: HealthOfQueue; base: string }> = ({ queue, base }) => (
  <>
    {"Queue "}
    <a href={href(base, "/queues/detail", { name: queue.name })}>{queue.name}</a>
    {" was paused "}
    <Time at={queue.pausedAt} />
    {`: ${counted(queue.pending)} pending.`}
  </>
);

const SlowQueue: FC<{ queue: HealthOfQueue; base: string }> = ({ queue, base }) => (
  <>
    {"Queue "}
    <a href={href(base, "/tasks", { queue: queue.name, status: "pending" })}>{queue.name}</a>
    {`: ${counted(queue.pending)} pending, the oldest for ${span(queue.oldestPendingAge ?? 0)}.`}
  </>
);

function pauseLines(pauses: readonly Pause[], base: string): Child[] {
  const ofFunctions = pauses.filter(({ target }) => "func" in target);
  const lines: Child[] = ofFunctions
    .slice(0, mostPauses)
    .map((pause) => <PausedFunction pause={pause} base={base} />);
  if (ofFunctions.length > mostPauses)
    lines.push(
      <>
        {`${grouped(ofFunctions.length - mostPauses)} more pauses: `}
        <a href={href(base, "/queues")}>all pauses</a>
      </>,
    );
  return lines;
}

/** Of a function, or of one of its groups. */
const PausedFunction: FC<{ pause: Pause; base: string }> = ({ pause: { target, pausedAt }, base }) => {
  if (!("func" in target)) return <></>;
  const { func, group } = target;
  return (
    <>
      {group === undefined ? "Function " : "Group "}
      <a href={href(base, "/tasks", { func, group, status: "pending" })}>{group ?? func}</a>
      {group === undefined ? "" : " of "}
      {group === undefined ? "" : <bdi>{func}</bdi>}
      {" was paused "}
      <Time at={pausedAt} />
      {": its tasks wait."}
    </>
  );
};

// ---- the list --------------------------------------------------------------------------------

/** How many lines a list shows before the rest has to be opened. */
const openLines = 10;

const Lines: FC<{ lines: readonly Line[] }> = ({ lines }) => {
  const list = (some: readonly Line[]) => (
    <ul class="lines">
      {some.map(({ severity, line, repair }) => (
        <li class={severity === null ? undefined : `cause ${severity}`}>
          <div>{line}</div>
          {repair ?? ""}
        </li>
      ))}
    </ul>
  );
  const rest = lines.slice(openLines);
  return (
    <>
      {list(lines.slice(0, openLines))}
      {rest.length === 0 ? (
        ""
      ) : (
        <details id="stuck-more">
          <summary>{`${grouped(rest.length)} more`}</summary>
          {list(rest)}
        </details>
      )}
    </>
  );
};

/** At most 10,000 are counted. */
const counted = (tasks: number) => (tasks >= 10_000 ? `${grouped(tasks)}+ tasks` : tasksText(tasks));

const Start: FC = () => (
  <Empty>
    There are no tasks and no workers yet. Enqueue a task with <code>queue.enqueueTask(fn, …)</code> and start
    a worker with <code>dbq worker</code>: both appear here.
  </Empty>
);
