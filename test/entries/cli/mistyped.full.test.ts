/** A mistyped URL looks like a path: dbq must neither print its password nor create a file with that name. */
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openQueue } from "../../../src/index.ts";
import { temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { folderWithQueue } from "./dbq.ts";
import { dbq } from "./in-process.ts";

const mistyped = [
  "DBQ_URL=postgres://u:S3CRET@h/db",
  "DBQ_URL=postgres://h/db?user=u&password=S3CRET",
  "postgres//u:S3CRET@h.invalid/db",
  "postgres//u:S3CRET@h",
  "//u:S3CRET@h.invalid/db",
  "u:S3CRET@h/db",
  "host=h user=u password=S3CRET dbname=x",
  "host=h password = 'S3CRET' dbname=x",
];

const left = ["dbq.db", "dbq.db-shm", "dbq.db-wal"];

test("commands that create a database refuse a mistyped URL without showing its password", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.countTasks();
  const commands = mistyped.flatMap((url) => [
    ["migrate", "--db", url],
    ["move", "--to", url],
  ]);
  for (const args of commands) {
    const { code, out, err } = await dbq(folder, args);
    expect([args, code, out]).toEqual([args, 2, ""]);
    expect(err).toMatch(/^error: .*\*\*\*.* looks like the URL of a server.*\n$/);
    expect(err).not.toContain("openQueue");
    expect(err).not.toContain("S3CRET");
  }
  expect(readdirSync(folder).filter((name) => !left.includes(name))).toEqual([]);
});

test("commands that read report a mistyped URL as a missing file without showing its password", async () => {
  const folder = temporaryFolder();
  for (const url of mistyped) {
    const { code, err } = await dbq(folder, ["list", "--db", url]);
    expect([url, code, err]).toEqual([url, 1, expect.stringContaining("there is no such file")]);
    expect(err).not.toContain("S3CRET");
  }
});

describe("a path", () => {
  test("whose folder is missing is shown without a possible password", async () => {
    const opening = openQueue(join(temporaryFolder(), "postgres/u:S3/CRET@h/db"));
    await expect(opening).rejects.toMatchObject({ code: "DBQ_DATABASE" });
    await expect(opening).rejects.not.toThrow("CRET");
  });

  test.each(["run-12:30:05.db", "ada@example.com.db", "10:30@home.db"])(
    "such as %s is not taken for a URL",
    async (name) => {
      const path = join(temporaryFolder(), name);
      await temporaryQueue({}, path);
      expect(existsSync(path)).toBe(true);
    },
  );

  test("that looks like a URL is opened when the file exists", async () => {
    const path = join(temporaryFolder(), "host=h password=x");
    writeFileSync(path, "");
    const queue = await temporaryQueue({}, path);
    expect(await queue.listTasks()).toEqual([]);
  });
});
