/** All pages, in the order of the menu. */
import type { AnyPage } from "../page.ts";
import { functions } from "./functions.tsx";
import { overview } from "./overview.tsx";
import { queues } from "./queues.tsx";
import { schedules } from "./schedules.tsx";
import { task } from "./task.tsx";
import { tasks } from "./tasks.tsx";
import { workers } from "./workers.tsx";

export const pages: readonly AnyPage[] = [overview, tasks, task, queues, schedules, workers, functions];
