import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { eventsOf, folderWithQueue, isEvent, startDbq, startWorker } from "./dbq.ts";

const add = remoteTask<(a: number, b: number) => Promise<number>>("add");
const fail = remoteTask<(message: string) => Promise<void>>("fail");

test("tail prints each change of a task until SIGINT", async () => {
  const { folder, queue } = await folderWithQueue();
  const old = await queue.enqueueTask(add.with({ delay: "1h" }), 0, 0);
  const tail = startDbq(folder, ["tail", "--json"]);
  await tail.err(isEvent("following"));
  const good = await queue.enqueueTask(add, 1, 2);
  const bad = await queue.enqueueTask(fail.with({ maxRetries: 0 }), "no");
  await tail.out(isEvent("enqueued", bad));
  await startWorker(folder);
  await tail.out(isEvent("completed", good));
  const failed = JSON.parse(await tail.out(isEvent("failed", bad)));
  expect(failed).toMatchObject({ func: "fail", error: { name: "Error", message: "no" } });
  await queue.cancelTask(old);
  await tail.out(isEvent("cancelled", old));
  tail.child.kill("SIGINT");
  const { code, out } = await tail.ended;
  expect(code).toBe(0);
  const events = eventsOf(out);
  for (const id of [good, bad]) {
    expect(events.filter((event) => event.endsWith(` ${id}`)).map((event) => event.split(" ")[0])).toEqual([
      "enqueued",
      "started",
      id === good ? "completed" : "failed",
    ]);
  }
  expect(events).not.toContain(`enqueued ${old}`);
});

test("tail ends when its reader closes the pipe", async () => {
  const { folder, queue } = await folderWithQueue();
  const tail = startDbq(folder, ["tail", "--func", "add"]);
  await tail.err((line) => line.startsWith("following"));
  await queue.enqueueTask(remoteTask("other"));
  const id = await queue.enqueueTask(add, 1, 2);
  expect(await tail.out(() => true)).toContain(`enqueued    #${id} add`);
  tail.child.stdout?.destroy();
  // tail writes each of these changes to a closed pipe.
  const timer = setInterval(() => void queue.enqueueTask(add, 1, 2), 100);
  const { code, err } = await tail.ended.finally(() => clearInterval(timer));
  expect([code, err]).toEqual([0, "following dbq.db, Ctrl-C to stop\n"]);
});

test("tail --logs prints the lines of tasks, with control characters as escapes", async () => {
  const { folder, queue } = await folderWithQueue();
  const chat = remoteTask<(line: string) => Promise<void>>("chat");
  const [people, programs] = [
    startDbq(folder, ["tail", "--logs"]),
    startDbq(folder, ["tail", "--logs", "--json"]),
  ];
  await Promise.all([people.err((line) => line.startsWith("following")), programs.err(isEvent("following"))]);
  await startWorker(folder);
  const id = await queue.enqueueTask(chat, "page 1\n\u001b[31mred");
  expect(await people.out((line) => line.includes(" log "))).toContain(`#${id} chat page 1\\n\\x1b[31mred`);
  expect(JSON.parse(await programs.out(isEvent("log", id)))).toMatchObject({
    ...{ event: "log", id, func: "chat", message: "page 1\n\u001b[31mred" },
  });
});
