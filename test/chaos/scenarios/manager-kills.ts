/**
 * Invariant: whichever Manager or agent is killed at whichever moment, no task is lost or finished twice, none starts again
 * that its agent still runs, and those of a killed agent soon start elsewhere.
 */
import { deepStrictEqual } from "node:assert/strict";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { addAgent } from "../../../src/features/manager/index.ts";
import type { Child, Harness } from "../../fixtures/harness.ts";
import { chore, type Plan } from "../../fixtures/tasks.ts";
import { byAgent, startedTwice } from "../agents-history.ts";
import { audit } from "../audit.ts";
import { openRaw } from "../backends/backend.ts";
import { demand } from "../checker.ts";
import { drain, stopAll } from "../drain.ts";
import { type History, historyOf } from "../history.ts";
import { isCrash, pidOf } from "../load.ts";
import { isFinished, isRefund, key, keyOfEnded, processOf } from "../promises/finder.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";

const managers = 2;
const agents = 5;
const concurrency = 5;
const lease = 6_000;

/** Milliseconds between two kills, on average: 100 in two minutes. */
const pause = 1_200;

/** Of ten kills: those of a Manager, and those of a Manager and an agent at the same moment. The others are agents. */
const parts = { manager: 0.3, both: 0.1 };

/** Kills of agents wait while fewer than this are ready: else no slot would be free for the tasks of a killed one. */
const leastAgents = 3;

/** Milliseconds: an agent speaks to another Manager at the latest so long after its own was killed. */
const settled = 1_500;

const plans: readonly Plan[] = ["return", "return", "throwOnce", "return", "snoozeOnce", "fail", "cancel"];

export const managerKills: Scenario = {
  name: "managers",
  about:
    "Two Managers and five agents are killed at random moments: nothing is lost or finished twice, and no task starts again that its agent still runs.",
  unit: "kills",
  amounts: { test: 6, sample: 20, chaos: 100 },
  async run(trial) {
    await audit(trial.harness.database);
    const crew = await Crew.start(trial.harness);
    const options = { count: Number.MAX_SAFE_INTEGER, pause: 200, longest: 600, plans };
    const enqueuer = trial.harness.start("enqueuer.ts", [options]);
    await trial.harness.eventLog.until("start");
    await kill(crew, trial);
    await stopAll([enqueuer]);
    await drain(trial.harness);
    await crew.stop();
    const history = byAgent(await historyOf(trial.harness));
    judge(history, crew);
    return figures(history, crew);
  },
};

async function kill(crew: Crew, { amount, random, progress }: Trial): Promise<void> {
  for (let done = 0; done < amount; progress(done)) {
    await sleep(2 * pause * random());
    const lot = random();
    if (lot < parts.both && done + 2 <= amount) {
      await Promise.all([crew.killManager(random), crew.killAgent(random)]);
      done += 2;
    } else {
      await (lot < parts.both + parts.manager ? crew.killManager(random) : crew.killAgent(random));
      done += 1;
    }
  }
}

/** Managers and agents. A killed one is replaced at once; a Manager, where the agents look for it. */
class Crew {
  /** When each killed process was sent its signal, by process id. */
  readonly killedAgents = new Map<number, number>();
  /** Since when each Manager accepted requests, and until when. */
  readonly lives: { since: number; until: number }[] = [];
  readonly #harness: Harness;
  readonly #tokens: readonly string[];
  readonly #ports: readonly number[];
  readonly #managers = new Map<number, { child: Child; life: { since: number; until: number } }>();
  #agents: Child[] = [];
  readonly #starting = new Set<Promise<unknown>>();

  private constructor(harness: Harness, tokens: readonly string[], ports: readonly number[]) {
    this.#harness = harness;
    this.#tokens = tokens;
    this.#ports = ports;
  }

  static async start(harness: Harness): Promise<Crew> {
    const names = Array.from({ length: agents }, (_, n) => `agent-${n}`);
    const added = await Promise.all(
      names.map((name) => addAgent(harness.queue, name, { funcs: chore.taskName })),
    );
    const ports = await Promise.all(Array.from({ length: managers }, freePort));
    const crew = new Crew(
      harness,
      added.map(({ token }) => token),
      ports,
    );
    await Promise.all(ports.map((port) => crew.#startManager(port)));
    await Promise.all(crew.#tokens.map((_, n) => crew.#startAgent(n)));
    return crew;
  }

  async #startManager(port: number): Promise<void> {
    const options = { listen: `127.0.0.1:${port}`, lease };
    const child = this.#harness.start("manager-process.ts", [options]);
    const life = { since: await this.#ready(child), until: Number.POSITIVE_INFINITY };
    this.lives.push(life);
    this.#managers.set(port, { child, life });
  }

  /** Each has another Manager that it asks first. */
  async #startAgent(n: number): Promise<void> {
    const urls = this.#ports.map((_, i) => `http://127.0.0.1:${this.#ports[(n + i) % this.#ports.length]}`);
    const token = this.#tokens[n % this.#tokens.length];
    const child = this.#harness.start("agent-process.ts", [{ managers: urls, token, concurrency }]);
    await this.#ready(child);
    this.#agents.push(child);
  }

  /** When it was ready, in milliseconds since 1970. @throws Error when the process ends before */
  async #ready(child: Child): Promise<number> {
    const failed = child.ended.then((how) => Promise.reject(new Error(`${how}: ${child.output()}`)));
    failed.catch(() => undefined);
    const ready = this.#harness.eventLog.until("ready", ({ pid }) => pid === child.pid);
    return (await Promise.race([ready, failed])).at;
  }

  #replace(start: Promise<void>): void {
    const started = start.finally(() => this.#starting.delete(started));
    this.#starting.add(started);
  }

  /** One that is ready: the other one may be starting, so that none is there for a while. */
  async killManager(random: () => number): Promise<void> {
    while (this.#managers.size === 0) await Promise.race(this.#starting);
    const ports = [...this.#managers.keys()];
    const port = ports[Math.floor(ports.length * random())] as number;
    const { child, life } = this.#managers.get(port) as { child: Child; life: Crew["lives"][number] };
    this.#managers.delete(port);
    life.until = await child.kill();
    this.#replace(this.#startManager(port));
  }

  async killAgent(random: () => number): Promise<void> {
    while (this.#agents.length < leastAgents) await Promise.race(this.#starting);
    const [victim] = this.#agents.splice(Math.floor(this.#agents.length * random()), 1) as [Child];
    this.killedAgents.set(victim.pid, await victim.kill());
    this.#replace(this.#startAgent(this.killedAgents.size));
  }

  /** The Managers remove the rows of the agents that have gone before they stop. */
  async stop(): Promise<void> {
    await Promise.all(this.#starting);
    await stopAll(this.#agents);
    await using raw = await openRaw(this.#harness.database);
    for (const end = Date.now() + 2 * lease + 2_000; Date.now() < end; await sleep(50))
      if ((await raw.all("select id from dbq_workers")).length === 0) break;
    await stopAll([...this.#managers.values()].map(({ child }) => child));
  }
}

/** Below the ports that the system gives to connections: a Manager that is killed gets it again. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(10_000 * Math.random());
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

/** While no Manager is there, an agent says so. */
const isOutage = (note: unknown) => /^asking the Managers, none of which answers/.test(String(note));

function judge(history: History, { killedAgents }: Crew): void {
  const { entries, moves } = history;
  demand(history, {
    mayDie: (worker) => killedAgents.has(processOf(worker)),
    unanswered: true,
    allowed: ({ what, note }) => what === "error" && isOutage(note),
  });
  deepStrictEqual(startedTwice(entries, killedAgents), [], "no task starts while an earlier attempt runs");
  const started = new Set(entries.filter(({ what }) => what === "start").map(key));
  const isBack = (move: (typeof moves)[number]) =>
    isCrash(move) || (move.status === "pending" && isRefund(move));
  const wronged = moves.filter(
    (move) => isBack(move) && started.has(keyOfEnded(move)) && !killedAgents.has(pidOf(move)),
  );
  deepStrictEqual(
    wronged.filter(({ wasStatus }) => wasStatus === "running"),
    [],
    "the tasks of an agent that lives are not taken from it",
  );
  const lost = entries.filter(({ what, pid }) => what === "lost" && !killedAgents.has(pid));
  deepStrictEqual(lost, [], "no agent that lives loses a task");
}

/** An attempt that ended with its agent, from the kill to the next start of its task. */
interface Restart {
  killed: number;
  freed: number;
  /** When the task started again. */
  started: number;
}

function restarts({ moves, entries }: History, { killedAgents }: Crew): Restart[] {
  const starts = entries.filter(({ what }) => what === "start");
  const crashes = moves.filter((move) => isCrash(move) && killedAgents.has(pidOf(move)));
  return crashes.flatMap((move) => {
    const isLater = ({ task, generation }: { task?: number; generation?: number | null }) =>
      task === move.task && (generation ?? 0) > (move.generation ?? 0);
    const next = starts.find(isLater);
    // The next agent was killed, too, before it could start the task: that is a restart of its own.
    if (crashes.some((other) => isLater(other) && (other.generation ?? 0) <= (next?.generation ?? 0)))
      return [];
    const killed = killedAgents.get(pidOf(move)) ?? 0;
    return [{ killed, freed: move.at, started: next?.at ?? Number.NaN }];
  });
}

/** Whether the Manager that the agent last spoke to saw its connections close: none was killed about that time. */
function isNoticed({ killed, started }: Restart, lives: Crew["lives"]): boolean {
  const isKilled = lives.some(({ until }) => until > killed - settled && until <= started);
  return !isKilled && lives.some(({ since, until }) => since <= killed - settled && until > started);
}

/**
 * Since when the agent's death could be noticed by its heartbeats. A lease is measured by a Manager that sees how long they
 * stand still: from its own start, if that came later.
 */
function watchedSince({ killed, freed }: Restart, lives: Crew["lives"]): number {
  const watching = lives.filter(({ since, until }) => since <= freed && until > freed);
  return Math.max(killed, Math.min(...watching.map(({ since }) => since)));
}

function figures(history: History, crew: Crew): Figure[] {
  const { moves, tasks, entries } = history;
  const completions = moves.filter(({ status }) => status === "completed");
  const ended = tasks.filter(({ status }) => isFinished(status));
  const all = restarts(history, crew);
  const noticed = all.filter((one) => isNoticed(one, crew.lives));
  const others = all.filter((one) => !noticed.includes(one));
  deepStrictEqual(
    noticed.filter(({ killed, freed }) => freed - killed >= lease),
    [],
    "the end of an agent's connections frees its tasks before the lease is over",
  );
  const killedManagers = crew.lives.filter(({ until }) => until < Number.POSITIVE_INFINITY).length;
  return [
    { name: "kills", value: crew.killedAgents.size + killedManagers },
    { name: "of Managers", value: killedManagers },
    { name: "tasks", value: tasks.length },
    { name: "acknowledged", value: entries.filter(({ what }) => what === "acknowledged").length },
    { name: "lost", value: tasks.length - ended.length, most: 0 },
    {
      name: "finished twice",
      value: completions.length - new Set(completions.map(({ task }) => task)).size,
      most: 0,
    },
    { name: "killed attempts", value: all.length },
    ...spread(
      "from kill to start",
      noticed.map(({ killed, started }) => started - killed),
      { max: 1_000 },
    ),
    ...spread(
      "the same, where a Manager was killed too",
      others.map((one) => one.started - watchedSince(one, crew.lives)),
      { max: lease + 1_000 },
    ),
  ];
}
