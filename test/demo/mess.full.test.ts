/**
 * The demo with `--mess`, in small: each of its ten problems is a cause that names it and has its repair, on each database. The demo
 * ends with all of its processes, also with the one that is stopped.
 */
import { readFileSync } from "node:fs";
import { expect, onTestFinished, test, vi } from "vitest";
import { problems } from "../../demo/mess/problems.ts";
import { openQueue } from "../../src/index.ts";
import { poison } from "../fixtures/tasks.ts";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { temporaryQueue, urlForTest } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";
import { runDemo, startDemo } from "./run.ts";

// Milliseconds: nine processes start on two cores.
vi.setConfig({ testTimeout: 120_000 });

const ready = "Ctrl-C ends the demo";

const places = [
  ["SQLite", true, async () => undefined],
  ["Postgres", !isMissing(await postgresServer()), () => urlForTest(newSchema)],
  ["MySQL or MariaDB", !isMissing(await mysqlServer()), () => urlForTest(newDatabase)],
] as const;

/** Each kind but that of the database, whose facts are those of this machine. */
const expected = [
  { key: "paused:queueName:mail", command: "dbq resume --queue mail", action: "resume", tasks: 40 },
  {
    ...{ key: "limited:func:chargeCard", command: /^dbq limit --func chargeCard --rate \d+\/1m$/ },
    ...{ action: "limit", advice: /^choose less/ },
  },
  {
    ...{ key: "unserved:default:makeThumbnail", command: null, tasks: 20 },
    advice: /`dbq worker --queue default tasks.js`$/,
  },
  {
    ...{ key: "failing:sendInvoice", command: "dbq pause --func sendInvoice", action: "pause" },
    advice: /^`dbq failures --func sendInvoice`/,
  },
  { key: /^hung:\d+$/, command: /^dbq cancel \d+$/, action: "cancel" },
  { key: /^frozen:/, command: null, advice: /`kill -9 \d+`$/ },
  {
    ...{ key: "crashing:func:convertVideo", command: "dbq pause --func convertVideo", action: "pause" },
    advice: /^`dbq show \d+`/,
  },
  { key: "piling:stock report", command: "dbq schedule edit 'stock report' --overlap skip", action: "edit" },
  { key: "behind:search", command: null, advice: /`dbq worker --queue search tasks.js`/ },
  { key: "starved:search:priority:1", command: null, advice: /^give it a higher priority/ },
];

const matching = (value: unknown) => (value instanceof RegExp ? expect.stringMatching(value) : value);

for (const [name, isThere, place] of places)
  test.skipIf(!isThere)(`each of the ten problems is a cause with its repair, on ${name}`, async () => {
    const url = await place();
    const demo = startDemo("--mess", "--small", ...(url === undefined ? [] : ["--db", url]));
    let stderr = "";
    demo.child.stderr?.on("data", (text) => (stderr += text));
    await demo.says(ready);
    expect(stderr).not.toContain("do not show");
    const database = url ?? /^ +database +(.+)$/m.exec(stderr)?.[1] ?? "";
    const queue = await openQueue(database, { migrate: false });
    onTestFinished(() => queue.close());
    const causes = (await queue.listCauses()).filter(({ kind }) => kind !== "database");
    expect(causes.map(({ key }) => key)).toHaveLength(10);
    for (const { key, command, action, advice = null, tasks } of expected)
      expect(causes).toContainEqual(
        expect.objectContaining({
          key: matching(key),
          fix: {
            command: matching(command),
            action: action ? expect.objectContaining({ action }) : null,
            advice: matching(advice),
          },
          ...(tasks === undefined ? {} : { tasks }),
        }),
      );
    expect((await queue.listFailures({ func: "sendInvoice" })).map(({ open }) => open > 0)).toHaveLength(6);
    expect((await queue.countTasks()).completed).toBeGreaterThanOrEqual(2_000);

    const frozen = causes.find(({ kind }) => kind === "frozen")?.workerId?.split(":")[1];
    if (process.platform === "linux")
      expect(readFileSync(`/proc/${frozen}/stat`, "utf8")).toMatch(/^\d+ \(.*\) T /);

    await queue.resume({ queueName: "mail" });
    await queue.cancelTask(Number(causes.find(({ kind }) => kind === "hung")?.taskId));
    demo.child.kill("SIGINT");
    const { code, stdout } = await demo.ended;
    expect(code, stderr).toBe(0);
    expect(stdout).toContain("2 of 10 are repaired");
    for (const { what } of problems) expect(stdout).toContain(what);
    expect(stdout).toContain("repaired somebody has paused the queue mail");
    expect(stdout).toContain("still no worker runs the function makeThumbnail");
  });

test("a mess that is killed leaves no process behind, not even the stopped one", async () => {
  const demo = startDemo("--mess", "--small", "--answers");
  let stderr = "";
  demo.child.stderr?.on("data", (text) => (stderr += text));
  await demo.says("→ give the task a higher priority");
  demo.child.kill("SIGKILL");
  // Resolves only when no process has the pipes open.
  expect(await demo.ended).toMatchObject({ code: null, stdout: "" });
});

test.skipIf(isMissing(await postgresServer()))("the mess refuses a database that has tasks", async () => {
  const url = await urlForTest(newSchema);
  const queue = await temporaryQueue({}, url);
  await queue.enqueueTask(poison);
  const { code, stdout, stderr } = await runDemo("--mess", "--db", url);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain("this database has tasks");
  expect((await queue.countTasks()).pending).toBe(1);
});
