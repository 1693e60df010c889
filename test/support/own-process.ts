/**
 * The quick test files that `npm test` runs in a process of their own, since they change what a process has once: a test of
 * `test/architecture/` fails for a file that does so and is not listed.
 */
export const ownProcess: string[] = [
  // They listen to warnings, and Node or dbq gives some warnings once in a process.
  "test/events.test.ts",
  "test/warnings.test.ts",
  "test/stores/sqlite/heartbeat.test.ts",
  "test/worker/events.test.ts",
  "test/worker/hostile.test.ts",
  "test/worker/kept-rows.test.ts",
  "test/worker/unreadable-ids.test.ts",
  "test/queue/await.test.ts",
  // They change the folder, a variable, a flag or the output of their process.
  "test/queue/targets.test.ts",
  "test/queue/default-queue.test.ts",
  "test/worker/memory.test.ts",
  "test/features/dashboard/unknown-names.test.ts",
  "test/features/flow/put-off.test.ts",
  // Faked timers are those of all that runs in their process, and so of what a file before them has left running.
  "test/base/options/durations.test.ts",
  "test/features/failures/recorder.test.ts",
  "test/features/schedules/schedule-clock.test.ts",
  "test/features/stats/recorder.test.ts",
  "test/features/testing/opening.test.ts",
  "test/queue/wakeups.test.ts",
  "test/queue/watch-timer.test.ts",
  "test/stores/postgres/claim-cursor.test.ts",
  "test/stores/postgres/rescue.test.ts",
  "test/stores/sql/claim.test.ts",
  "test/stores/sql/turns.test.ts",
  "test/stores/sqlite/touch.test.ts",
  "test/worker/ahead.test.ts",
  "test/worker/ambiguous-results.test.ts",
  "test/worker/change-listener.test.ts",
  "test/worker/dispatcher.test.ts",
  "test/worker/hooks.test.ts",
  "test/worker/prefetch-buffer.test.ts",
  "test/worker/prefetch.test.ts",
  "test/worker/retention.test.ts",
  "test/worker/stop.test.ts",
  "test/worker/sweep-newcomer.test.ts",
  "test/worker/sweep.test.ts",
  // They see how an app's process ends.
  "test/worker/process-wide.test.ts",
];

/** The same among the long test files, which `npm run test:rest` runs. */
export const ownProcessOfLong: string[] = [
  // They run the command line in their process, whose output, folder and variables it uses.
  "test/entries/cli/**/*.full.test.ts",
  "test/examples/dashboard.full.test.ts",
  // They listen to warnings, or to what their process reports.
  "test/features/executors/executors.full.test.ts",
  "test/features/manager/channels.full.test.ts",
  "test/stores/server/cut-off.full.test.ts",
  "test/stores/server/ended-connections.full.test.ts",
  "test/worker/database-errors.full.test.ts",
  "test/worker/hostile-process.full.test.ts",
  "test/worker/unserved-queues.full.test.ts",
  // They load dbq anew.
  "test/base/tasks/reloaded-modules.full.test.ts",
];

/** Tests that replace a module of dbq or load dbq anew: vitest loads its sources itself for them. */
export const reloading: string[] = [
  "test/queue/fake-timers.test.ts",
  "test/features/dashboard/metrics.test.ts",
];
