/** One worker runs all tasks of a file of hostile handlers, and has to survive each. */
import { afterAll, beforeAll } from "vitest";
import { task } from "../../src/index.ts";
import { type SharedQueue, sharedQueue } from "../property/shared-queue.ts";
import { type Report, reportsOf } from "./setup.ts";

/** A task beside hostile ones, which must complete. */
export const bystander = task("bystander", async () => "unharmed");

/** Starts the worker before the tests of a file, and stops it after them. What it returns may be used in the tests only. */
export function survivingWorker(): () => SharedQueue & { reports: Report[] } {
  let post: (SharedQueue & { reports: Report[] }) | undefined;
  beforeAll(async () => {
    const opened = await sharedQueue();
    post = { ...opened, reports: reportsOf(opened.worker) };
  });
  afterAll(() => post?.close());
  return () => {
    if (post === undefined) throw new Error("the worker is started before the tests");
    return post;
  };
}
