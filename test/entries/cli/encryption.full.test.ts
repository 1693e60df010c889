/** Commands and the keys of DBQ_ENCRYPTION_KEYS. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openQueue, remoteTask } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { dbq as dbqProcess, tasks } from "./dbq.ts";
import { dbq } from "./in-process.ts";

const greet = remoteTask<(name: string) => Promise<string>>("greet");

const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
const named = (...keys: [id: string, key: Buffer][]) => ({
  DBQ_ENCRYPTION_KEYS: keys.map(([id, key]) => `${id}:${key.toString("base64")}`).join(","),
});

async function folderWithTask() {
  const folder = temporaryFolder();
  const queue = await openQueue(join(folder, "dbq.db"), {
    encryption: { keys: [{ id: "old", key: oldKey }] },
  });
  onTestFinished(() => queue.close());
  return { folder, queue, id: await queue.enqueueTask(greet, "Zebra4111") };
}

test("with the key, commands show and write what is encrypted; without it, they show what is stored", async () => {
  const { folder, queue, id } = await folderWithTask();
  const keys = named(["old", oldKey]);
  expect((await dbq(folder, ["show", String(id)], keys)).out).toContain("Zebra4111");
  const without = await dbq(folder, ["show", String(id), "--json"]);
  expect(without.out).toContain("dbq:sealed");
  expect(without.out).not.toContain("Zebra4111");
  const { out } = await dbq(folder, ["enqueue", "greet", '["Giraffe"]', "--json"], keys);
  const [enqueued] = await queue.listTasks({ limit: 1 });
  expect(out).toContain(String(enqueued?.id));
  expect(enqueued?.args).toEqual(["Giraffe"]);
  const doctor = await dbq(folder, ["doctor"]);
  expect(doctor.out).toContain("encrypted with the key old, which this process does not have");
  expect((await dbq(folder, ["doctor"], keys)).out).not.toContain("does not have");
});

test("dbq reencrypt takes the first key, and afterwards the old one can go", async () => {
  const { folder, id } = await folderWithTask();
  const { code, out } = await dbq(folder, ["reencrypt"], named(["new", newKey], ["old", oldKey]));
  expect([code, out]).toEqual([0, "encrypted 1 row\n"]);
  expect((await dbq(folder, ["show", String(id)], named(["new", newKey]))).out).toContain("Zebra4111");
  const again = await dbq(folder, ["reencrypt", "--json"], named(["new", newKey]));
  expect(JSON.parse(again.out)).toEqual({ changed: 0, skipped: 0 });
});

test("keys that are missing, malformed or not those of the database are said in one line, which shows none", async () => {
  const { folder } = await folderWithTask();
  const none = await dbq(folder, ["reencrypt"]);
  expect([none.code, none.err]).toEqual([2, expect.stringContaining("DBQ_ENCRYPTION_KEYS is not set")]);
  const malformed = await dbq(folder, ["list"], { DBQ_ENCRYPTION_KEYS: "old:c2VjcmV0" });
  expect([malformed.code, malformed.err]).toEqual([2, expect.stringContaining("expected an id, a colon")]);
  expect(malformed.err).not.toContain("c2VjcmV0");
  const other = await dbq(folder, ["list"], named(["old", newKey]));
  expect(other.code).not.toBe(0);
  expect(other.err).toContain('the key "old" is not the one that has encrypted in this database');
});

test("a worker of the command runs encrypted tasks, and what the tasks of its module enqueue is encrypted", async () => {
  const { folder, queue, id: unknown } = await folderWithTask();
  await queue.cancelTask(unknown);
  const id = await queue.enqueueTask(remoteTask<() => Promise<number>>("chain"));
  const keys = named(["old", oldKey]);
  const { code } = await dbqProcess(folder, ["worker", tasks, "--json", "--until-idle"], keys);
  expect(code).toBe(0);
  const enqueued = await queue.awaitTaskResult<number>(id);
  expect(await queue.getTask(enqueued)).toMatchObject({ func: "add", args: [20, 22], result: 42 });
  const { out } = await dbq(folder, ["show", String(enqueued), "--json"]);
  expect(JSON.parse(out).args).toContain("dbq:sealed");
});
