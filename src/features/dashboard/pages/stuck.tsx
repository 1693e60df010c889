/** "What is stuck" of the overview: one line for each cause, those that hold most tasks back first. */
import type { Child, FC } from "hono/jsx";
import { groupBy } from "../../../base/values/group-by.ts";
import type { Cause as FoundCause } from "../../../queue/causes.ts";
import type { Health, HealthOfQueue, Pause, UnclaimedTasks, WorkerHealth } from "../../../queue/health.ts";
import { whyNotAlive, workerName } from "./parts.tsx";
import { Empty, grouped, href, Panel, span, Time, tasksText } from "./ui.tsx";

/** A task that waits for longer than this is worth a line. Milliseconds. */
const longWait = 60_000;

/** The most pauses of functions and groups that are listed. */
const mostPauses = 100;

/** Workers that are not alive have a line each, up to so many; more share one. */
const mostWorkers = 2;

interface Cause {
  /** How many tasks wait for it; 0 where they are not counted. */
  tasks: number;
  line: Child;
}

/** @param isNew nothing has ever happened here */
export const Stuck: FC<{
  health: Health;
  causes: readonly FoundCause[];
  isNew: boolean;
  base: string;
}> = ({ health, causes: found, isNew, base }) => {
  const { queues, deadWorkers, unservedFunctions, pauses } = health;
  const paused = queues.filter(({ pausedAt }) => pausedAt !== null);
  const told = new Set([
    ...paused.map(({ name }) => name),
    ...unservedFunctions.map(({ queueName }) => queueName),
  ]);
  const slow = queues.filter(
    ({ name, oldestPendingAge }) => !told.has(name) && (oldestPendingAge ?? 0) > longWait,
  );
  const causes: Cause[] = [
    ...unservedCauses(unservedFunctions, queues, base),
    ...paused.map((queue) => ({ tasks: queue.pending, line: <PausedQueue queue={queue} base={base} /> })),
    ...slow.map((queue) => ({ tasks: queue.pending, line: <SlowQueue queue={queue} base={base} /> })),
  ];
  const lines = [
    ...deadLines(deadWorkers, base),
    ...causes.sort((a, b) => b.tasks - a.tasks).map(({ line }) => line),
    ...repairLines(found, base),
    ...pauseLines(pauses, base),
  ];
  return (
    <Panel title="What is stuck" id="stuck">
      {lines.length > 0 ? <Lines lines={lines} /> : isNew ? <Start /> : <Empty>Nothing is stuck.</Empty>}
    </Panel>
  );
};

// ---- functions that no worker takes ----------------------------------------------------------

/** The functions of a queue without a worker have one cause; each other function has one of its own. */
function unservedCauses(
  unserved: readonly UnclaimedTasks[],
  queues: readonly HealthOfQueue[],
  base: string,
): Cause[] {
  const lonely = new Set(queues.filter(({ workers }) => workers === 0).map(({ name }) => name));
  const causes = groupBy(unserved, ({ queueName, func }) =>
    JSON.stringify(lonely.has(queueName) ? [queueName] : [queueName, func]),
  );
  return [...causes.values()].map((all) => ({
    tasks: all.reduce((sum, { tasks }) => sum + tasks, 0),
    line: lonely.has(all[0]?.queueName ?? "") ? (
      <UnservedQueue functions={all} base={base} />
    ) : (
      all.map((each) => <Unserved of={each} base={base} />)
    ),
  }));
}

const UnservedQueue: FC<{ functions: readonly UnclaimedTasks[]; base: string }> = ({ functions, base }) => {
  const [{ queueName, func, reason } = { queueName: "", func: "", reason: "" }] = functions;
  const tasks = functions.reduce((sum, each) => sum + each.tasks, 0);
  const longest = Math.max(...functions.map(({ pendingFor }) => pendingFor ?? 0));
  return (
    <>
      {"Queue "}
      <a href={href(base, "/tasks", { queue: queueName, status: "pending" })}>{queueName}</a>
      {`: ${counted(tasks)} of `}
      {functions.length === 1 ? <bdi>{func}</bdi> : `${grouped(functions.length)} functions`}
      {` not taken for ${span(longest)}, since ${reason}.`}
    </>
  );
};

const Unserved: FC<{ of: UnclaimedTasks; base: string }> = ({ of, base }) => {
  const { func, queueName, tasks, pendingFor, reason } = of;
  return (
    <>
      <a href={href(base, "/tasks", { func, queue: queueName, status: "pending" })}>{func}</a>
      {" in "}
      <bdi>{queueName}</bdi>
      {`: ${counted(tasks)} not taken${pendingFor === null ? "" : ` for ${span(pendingFor)}`}, since ${reason}.`}
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

// ---- causes that the health does not show ------------------------------------------------------

/** The other kinds have lines of their own, with links. */
const ofHealth: readonly string[] = ["unserved", "frozen", "paused"];

function repairLines(causes: readonly FoundCause[], base: string): Child[] {
  return causes
    .filter(({ kind }) => !ofHealth.includes(kind))
    .map((cause) => <Repair cause={cause} base={base} />);
}

/** Why, what to look at, and the command that repairs it. */
const Repair: FC<{ cause: FoundCause; base: string }> = ({ cause, base }) => {
  const { fix } = cause;
  const why = `${cause.why.charAt(0).toUpperCase()}${cause.why.slice(1)}`;
  const place = placeOf(cause, base);
  return (
    <>
      {place === undefined ? <bdi>{why}</bdi> : <a href={place}>{why}</a>}
      {". "}
      {fix.command === null ? "" : <code>{fix.command}</code>}
    </>
  );
};

function placeOf({ kind, taskId, func, schedule }: FoundCause, base: string): string | undefined {
  if (taskId !== undefined) return href(base, `/tasks/${taskId}`);
  if (schedule !== undefined) return href(base, "/schedules");
  if (kind === "failing") return href(base, "/tasks", { func, status: "failed" });
  return kind === "limited" ? href(base, "/queues") : undefined;
}

// ---- pauses and slow queues ------------------------------------------------------------------

const PausedQueue: FC<{ queue: HealthOfQueue; base: string }> = ({ queue, base }) => (
  <>
    {"Queue "}
    <a href={href(base, "/queues")}>{queue.name}</a>
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
const openLines = 6;

const Lines: FC<{ lines: readonly Child[] }> = ({ lines }) => {
  const list = (some: readonly Child[]) => (
    <ul class="lines">
      {some.map((line) => (
        <li>{line}</li>
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
