/** All pages, in the order of the menu. */
import { raw } from "hono/html";
import type { AnyPage } from "../page.ts";
import { visible } from "../visible.ts";
import { audit } from "./audit.tsx";
import { functionPage, queuePage } from "./detail.tsx";
import { failure, failures } from "./failures.tsx";
import { functions } from "./functions.tsx";
import { overview } from "./overview.tsx";
import { queues } from "./queues.tsx";
import { run } from "./run.tsx";
import { scheduleForm } from "./schedule-form.tsx";
import { schedules } from "./schedules.tsx";
import { task } from "./task.tsx";
import { tasks } from "./tasks.tsx";
import { workers } from "./workers.tsx";
import { workflows } from "./workflows.tsx";

/** The page as it is shown: no text of a stranger turns or hides what stands around it. */
const shown = (page: AnyPage): AnyPage => ({
  ...page,
  view: async (data, context) => raw(visible(String(await page.view(data, context)))),
});

export const pages: readonly AnyPage[] = [
  ...[overview, tasks, task, failures, failure, workflows, run],
  ...[queues, queuePage, schedules, scheduleForm, workers, functions, functionPage, audit],
].map(shown);
