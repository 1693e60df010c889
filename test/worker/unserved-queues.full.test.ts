/** A function that goes to a queue which no worker serves is warned of: its tasks would wait for ever. */
import { once } from "node:events";
import { expect, test } from "vitest";
import { task } from "../../src/index.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";
import { queueOnFile } from "./setup.ts";

test("a worker warns of the functions that go to a queue which no worker on its database serves", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const going = (queueName?: string) =>
    task(uniqueName(), async () => undefined, queueName ? { queueName } : {});
  const unserved = [going("paper"), going("paper")];
  const posted = going("mail");
  const served = [going(), going("images"), posted];
  const warning = once(process, "warning");
  await startedWorker(queue, { queueName: ["default", "images"], tasks: [...served, ...unserved] });
  await startedWorker(await elsewhere(), { queueName: "mail", tasks: [posted] });
  const [{ name, message }] = (await warning) as [Error];
  expect(name).toBe("DbqWarning");
  const [one, two] = unserved.map(({ taskName }) => JSON.stringify(taskName));
  expect(message).toBe(
    `tasks of ${one}, ${two} go to the queue "paper", and no worker on this database serves that queue, so they will wait: ` +
      'start this worker with --queue default,images,paper (in code: queueName: ["default", "images", "paper"]), ' +
      "start another worker for it, or change the queueName of the task",
  );
});
