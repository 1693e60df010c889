/** The encrypted values of steps, events and log lines. */
import type { StoredLogLine } from "../../store.ts";
import type { EndedChild, NewStep, StoredStep } from "../workflows/contract.ts";
import type { Place } from "./envelope.ts";
import type { Sealer } from "./sealer.ts";

export type StepText = "value" | "error" | "undo_error";

export const stepPlace = (column: StepText, taskId: number, name: string): Place => ({
  column: `dbq_steps.${column}`,
  row: `${taskId}:${name}`,
});

export const eventPlace = (name: string): Place => ({ column: "dbq_events.payload", row: name });

export const logPlace = (taskId: number, generationId: number): Place => ({
  column: "dbq_task_logs.message",
  row: `${taskId}:${generationId}`,
});

export const sealStep = <S extends NewStep | EndedChild>(sealer: Sealer, taskId: number, step: S): S => ({
  ...step,
  value: sealer.sealOrNull(step.value, stepPlace("value", taskId, step.name)),
  error: sealer.sealOrNull(step.error, stepPlace("error", taskId, step.name)),
});

/** @param required whether a value in clear is refused */
export function openStep(sealer: Sealer, taskId: number, step: StoredStep, required: boolean): StoredStep {
  const { name, value, error, undoError } = step;
  return {
    ...step,
    value: value === null ? null : openValue(sealer, taskId, name, value, required),
    error: sealer.openOrNull(error, stepPlace("error", taskId, name)),
    undoError: sealer.openOrNull(undoError, stepPlace("undo_error", taskId, name)),
  };
}

/** The database copies the payload of an event into the steps that have waited for it: there it still is bound to the event. */
function openValue(sealer: Sealer, taskId: number, name: string, value: string, required: boolean): string {
  const place = stepPlace("value", taskId, name);
  if (sealer.opened(value, place) === "broken")
    for (const event of new Set([name, name.replace(/#\d+$/, "")])) {
      const opened = sealer.opened(value, eventPlace(event));
      if (typeof opened === "object") return opened.text;
    }
  return sealer.open(value, place, required);
}

export const openLine = (sealer: Sealer, line: StoredLogLine): StoredLogLine => ({
  ...line,
  message: sealer.open(line.message, logPlace(line.id, line.generationId)),
});
