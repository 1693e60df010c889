/** The stack of a failed task, as its page shows it. */
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { queueOnFile } from "../../worker/setup.ts";
import { openDesk } from "./requests.ts";

const own = "    at charge (/app/src/charge.ts:42:11)";
const ofDbq = "    at Attempt.run (file:///app/node_modules/dbq-ts/dist/src/worker/attempt.js:9:1)";
const ofNode = "    at process.processTicksAndRejections (node:internal/process/task_queues:104:5)";

async function pageWith(frames: readonly string[]): Promise<string> {
  const { queue, raw } = await queueOnFile();
  const { get } = await openDesk({}, queue);
  const id = await queue.enqueueTask(remoteTask("charge"));
  const stack = ["Error: declined", ...frames].join("\n");
  const error = JSON.stringify({ name: "Error", message: "declined", stack });
  raw.prepare("update dbq_tasks set status = 'failed', finished_at = 1, error = ?").run(error);
  return await (await get(`/tasks/${id}`)).text();
}

test("a stack shows the frames of the app; those of dbq, packages and Node are folded with the whole", async () => {
  const html = await pageWith([own, ofDbq, ofNode]);
  const [before = "", folded = ""] = html.split('<details id="stack-0"');
  expect(before).toContain("charge.ts:42:11");
  expect(before).not.toMatch(/node_modules|processTicks/);
  expect(folded).toContain("The whole stack, with 2 frames of dbq, packages and Node");
  expect(folded).toMatch(/charge\.ts:42:11.*attempt\.js:9:1.*task_queues:104:5/s);
});

test.each([[[own]], [[ofDbq, ofNode]]])("a stack of %j is shown as it is", async (frames) => {
  const html = await pageWith(frames);
  expect(html).not.toContain('<details id="stack-0"');
  for (const frame of frames) expect(html).toContain(frame.trim());
});
