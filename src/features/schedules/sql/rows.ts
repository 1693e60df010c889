/** The rows of schedules. */
import { columnsOf, positionsIn } from "../../../stores/sql/columns.ts";
import type { Row } from "../../../stores/sql/dialect.ts";
import { int, intOrNull, text, textOrNull } from "../../../stores/sql/rows.ts";
import type { TableLook } from "../../../stores/sql/unreadable.ts";
import type { ScheduleRecord } from "../contract.ts";

export const scheduleColumns = columnsOf("dbq_schedules");

const schedule = positionsIn(scheduleColumns);

/** Another column follows them in queries: the time of the statement. */
/** What a schedule's own `problem` says is left out. */
export const scheduleLook: TableLook = {
  table: "dbq_schedules",
  key: ["name"],
  columns: ["next_at", "last_slot", "paused_at", "generation_id", "created_at", "updated_at"],
};

export const readAt = (row: Row): number => int(row[scheduleColumns.length]);

export function toScheduleRecord(row: Row): ScheduleRecord {
  return {
    name: text(row[schedule.name]),
    func: text(row[schedule.func]),
    args: text(row[schedule.args]),
    kwargs: text(row[schedule.kwargs]),
    options: text(row[schedule.options]),
    cron: textOrNull(row[schedule.cron]),
    everyMs: intOrNull(row[schedule.every_ms]),
    timeZone: text(row[schedule.time_zone]),
    missed: text(row[schedule.missed]),
    overlap: text(row[schedule.overlap]),
    jitterMs: int(row[schedule.jitter_ms]),
    startAt: intOrNull(row[schedule.start_at]),
    endAt: intOrNull(row[schedule.end_at]),
    anchorAt: int(row[schedule.anchor_at]),
    nextAt: intOrNull(row[schedule.next_at]),
    lastSlot: intOrNull(row[schedule.last_slot]),
    lastTaskId: intOrNull(row[schedule.last_task_id]),
    skipped: int(row[schedule.skipped]),
    pausedAt: intOrNull(row[schedule.paused_at]),
    generationId: int(row[schedule.generation_id]),
    createdAt: int(row[schedule.created_at]),
    updatedAt: int(row[schedule.updated_at]),
  };
}
