/** Kills processes at their cuts and judges what they leave, before and after healing. */
import { EventLog } from "../../../fixtures/event-log.ts";
import { backendOf } from "../../backends/backend.ts";
import { historyOf } from "../../history.ts";
import { schemaOf } from "../../schema.ts";
import { inLanes } from "../batches.ts";
import { heal } from "../heal.ts";
import { judge } from "../kill.ts";
import type { Files } from "../operation.ts";
import { difference, isSame, type State } from "../state.ts";
import { deletedBy } from "../trace.ts";
import { crash } from "./crash.ts";
import type { Sandboxes } from "./sandbox.ts";
import { stateOf } from "./state.ts";
import { type Kill, sandboxFor } from "./trace.ts";

/** How many heal at a time: each uses some connections. */
const healing = 3;

/** What happened to a process: "spared" reached its end. For a change in flight, whether the server committed it. */
export type Fate = "killed" | "spared" | "sent and committed" | "sent and rolled back";

/** A promise that a kill broke. */
export interface Broken {
  broken: unknown;
}

/** Kills one process at all of these cuts, in turn. `schema`: the schema of a database without kills. */
export async function kill(
  kills: readonly Kill[],
  sandboxes: Sandboxes,
  schema: string,
): Promise<(Fate | Broken)[]> {
  const begun = await inLanes(healing, kills, async (one) => ({
    kill: one,
    room: await sandboxFor(one.trace, sandboxes),
  }));
  await crash(
    begun.map(({ kill: { trace, at }, room }) => ({ ...room, operation: trace.operation.name, at })),
    "SIGKILL",
  );
  return await inLanes(healing, begun, async ({ kill: one, room }) => {
    const place = backendOf(room.database);
    try {
      const fate = await fateOf(one, room, schema);
      if (one.trace.source) sandboxes.giveBack(room);
      else await place.remove(room.database);
      return fate;
    } catch (error) {
      return { broken: new Error(`${nameOf(one)}, in ${place.nameOf(room.database)}`, { cause: error }) };
    }
  });
}

function nameOf({ trace: { operation, points }, at }: Kill): string {
  const statement = `statement ${at.statement + 1} of ${points.length - 1}`;
  return `${operation.name}, ${at.when} ${statement} (${points[at.statement]?.name})`;
}

/** @throws Error when the kill broke a promise */
async function fateOf({ trace, at }: Kill, room: Files, schema: string): Promise<Fate> {
  const eventLog = new EventLog(room.eventLog);
  const isSpared = eventLog.entries("spared").length > 0;
  const varies = trace.operation.commits === undefined;
  if (isSpared && !varies) throw new Error("the operation did not reach this statement");
  const found = await stateOf(room.database);
  const [before, after] = expectedAt(trace.points, at);
  const isMade = isSame(found, after);
  if (!varies && !isMade && !isSame(found, before))
    throw new Error(`another connection saw another state before:\n${difference(found, before)}`);
  await heal(room);
  judge(deletedBy(trace.points), found, await historyOf({ ...room, eventLog }));
  await trace.operation.healed?.(room);
  if (!trace.source && (await schemaOf(room.database)).digest !== schema)
    throw new Error("its schema differs from that of a database without kills");
  if (isSpared) return "spared";
  if (varies || isSame(before, after)) return "killed";
  return isMade ? "sent and committed" : "sent and rolled back";
}

/** The states that may be found: twice the same where the server's decision is known. */
function expectedAt(
  points: Kill["trace"]["points"],
  { statement, when }: Kill["at"],
): [before: State, after: State] {
  const [before, after = before] = [points[statement]?.state ?? {}, points[statement + 1]?.state];
  if (when === "sent") return [before, after];
  return when === "before" ? [before, before] : [after, after];
}
