/** `dbq failures`, and the option `--failure` of the commands that choose tasks */
import { expect, test } from "vitest";
import { failing, run } from "../../features/failures/scenario.ts";
import { folderWithQueue } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

test("failures shows a row for each kind, and how to go on", async () => {
  const { folder, queue } = await folderWithQueue();
  const none = await dbq(folder, ["failures"]);
  expect([none.code, none.out, none.err]).toEqual([0, "", "no failures\n"]);
  const fails = failing();
  await run(queue, fails, ["no user 7", "no user 8", "wrong host 'a'"]);
  const { code, out, err } = await dbq(folder, ["failures"]);
  const [users] = await queue.listFailures();
  const id = String(users?.id);
  expect(code).toBe(0);
  const [heading, first, second, ...rest] = out.split("\n");
  expect(heading).toMatch(/^OPEN +COUNT +FUNC +FIRST +LAST +ID +ERROR$/);
  expect(first).toMatch(new RegExp(`^ *2 +2 +${fails.taskName} .* ${id} +Error: no user <n>$`));
  expect(second).toMatch(/^ *1 +1 .* TypeError: wrong host '…'$/);
  expect(rest).toEqual([""]);
  expect(err).toBe(
    `the tasks of a kind: dbq list --failure ${id}; run them again: dbq retry --failure ${id}\n`,
  );
});

test("failures --json is the array of listFailures, for a time, a function and a limit", async () => {
  const { folder, queue } = await folderWithQueue();
  const [one, other] = [failing(), failing()];
  await run(queue, one, ["a", "b"]);
  await run(queue, other, ["c"]);
  const found = await dbqJson(folder, ["failures"]);
  expect(found).toEqual(JSON.parse(JSON.stringify(await queue.listFailures())));
  expect(await dbqJson(folder, ["failures", "--func", other.taskName])).toMatchObject([{ message: "c" }]);
  expect(await dbqJson(folder, ["failures", "--limit", "2", "--since", "1h"])).toHaveLength(2);
  const more = await dbq(folder, ["failures", "--limit", "2"]);
  expect(more.err).toContain("there may be more kinds: raise the --limit\n");
  expect((await dbq(folder, ["failures", "--since", "24"])).code).toBe(2);
});

test("--failure chooses tasks for list, retry and delete, and show names the kind", async () => {
  const { folder, queue } = await folderWithQueue();
  const fails = failing();
  const ids = await run(queue, fails, ["no user 7", "no user 8", "other"]);
  const [users] = await queue.listFailures();
  const failure = String(users?.id);
  expect(await dbqJson(folder, ["list", "--failure", failure])).toMatchObject([
    { id: ids[1] },
    { id: ids[0] },
  ]);
  expect((await dbq(folder, ["show", String(ids[0])])).out).toContain(`kind     `);
  expect((await dbq(folder, ["show", String(ids[0])])).out).toContain(
    `${failure} (dbq list --failure ${failure})`,
  );
  const asked = await dbq(folder, ["retry", "--failure", failure]);
  expect([asked.code, asked.out]).toEqual([2, "would retry 2 tasks (2 failed)\n"]);
  const done = await dbq(folder, ["retry", "--failure", failure, "--yes"]);
  expect([done.code, done.out]).toEqual([0, "retried 2 tasks\n"]);
  expect((await queue.listFailures()).find(({ id }) => id === failure)).toMatchObject({ count: 2, open: 0 });
  const rest = (await queue.listFailures()).find(({ open }) => open > 0);
  const deleted = await dbq(folder, ["delete", "--failure", String(rest?.id), "--yes"]);
  expect([deleted.code, deleted.out]).toEqual([0, "deleted 1 task\n"]);
});
