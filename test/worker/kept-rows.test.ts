/** A row that an app's trigger refuses to change stops no maintenance of others, and is reported. */
import { expect, onTestFinished, test, vi } from "vitest";
import { task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { queueOnFile } from "./setup.ts";

const refuses = (func: string) =>
  `create trigger no before update on dbq_tasks when old.func = '${func}' begin select raise(abort, 'no way'); end`;

function warned(): string[] {
  const texts: string[] = [];
  const note = ({ message }: Error) => void texts.push(message);
  process.on("warning", note);
  onTestFinished(() => void process.off("warning", note));
  return texts;
}

test("a worker promotes due tasks around one that a trigger refuses to change, and names that one", async () => {
  const { queue, raw } = await queueOnFile();
  const texts = warned();
  const [stubborn, fine] = [task(uniqueName(), async () => 1), task(uniqueName(), async () => 2)];
  const insert = raw.prepare(
    "insert into dbq_tasks (id, func, status, wait_until) values (?, ?, 'scheduled', ?)",
  );
  insert.run(1, stubborn.taskName, Date.now() - 2_000);
  insert.run(2, fine.taskName, Date.now() - 1_000);
  raw.exec(refuses(stubborn.taskName));
  await startedWorker(queue, { pollInterval: 20 });
  expect((await queue.awaitTaskCompletion(2)).status).toBe("completed");
  await vi.waitUntil(() =>
    texts.some((text) => /promoting due tasks: .*promote task 1: .*no way/.test(text)),
  );
});

test("a worker that stops hands back its tasks around one that a trigger refuses to change, and names that one", async () => {
  const { queue, raw } = await queueOnFile();
  const texts = warned();
  const [running, end] = [deferred(), deferred()];
  onTestFinished(() => end.resolve());
  let begun = 0;
  const wait = async () => {
    begun += 1;
    if (begun === 2) running.resolve();
    await end.promise;
  };
  const [stubborn, fine] = [task(uniqueName(), wait), task(uniqueName(), wait)];
  const [, id] = [await queue.enqueueTask(stubborn), await queue.enqueueTask(fine)];
  const worker = await startedWorker(queue, { concurrency: 2 });
  await running.promise;
  raw.exec(refuses(stubborn.taskName));
  await worker.stop({ grace: 0 });
  expect((await queue.getTask(id))?.status).toBe("pending");
  expect(raw.prepare("select count(*) from dbq_workers").pluck().get()).toBe(0);
  await vi.waitUntil(() => texts.some((text) => /stopping: .*hand back task 1: .*no way/.test(text)));
});
