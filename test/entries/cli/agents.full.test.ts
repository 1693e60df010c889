/** `dbq manager`, `dbq agent` and `dbq agents`: real processes, tokens, TLS, and deaths of either side. */
import { execFileSync } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { registeredNames, remoteTask } from "../../../src/index.ts";
import * as childTasks from "../../features/executors/tasks.ts";
import { ByHand } from "../../features/manager/setup.ts";
import { deferred } from "../../support/queue.ts";
import { dbq as dbqProcess, folderWithQueue, isEvent, type Running, startDbq, tasks } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

const add = remoteTask<(a: number, b: number) => number>("add");
const untilAborted = remoteTask("untilAborted");
const long = { timeout: "60s" } as const;
const all = "add,fail,failQuery,untilAborted,untilInput,stray";

async function setUp() {
  const { folder, queue } = await folderWithQueue();
  // The modules of these tests register more than a test needs: the agent may run all of them.
  const listed = execFileSync("grep", ["-ohP", '(?<=task\\("|task\\(\\n  ")\\w+', tasks], {
    encoding: "utf8",
  });
  const funcs = [...new Set([...listed.trim().split("\n"), ...all.split(",")])].join(",");
  const { token } = await dbqJson<{ token: string }>(folder, ["agent", "add", "gpu-7", "--funcs", funcs]);
  return { folder, queue, token };
}

const urlOf = async (manager: Running): Promise<string> =>
  (JSON.parse(await manager.out(isEvent("ready"))) as { url: string }).url;

const startManager = (folder: string, ...args: string[]) =>
  startDbq(folder, ["manager", "--listen", "127.0.0.1:0", "--json", ...args]);

const startAgent = (folder: string, urls: string, token: string, ...args: string[]) =>
  startDbq(folder, ["agent", urls, tasks, "--json", ...args], { DBQ_TOKEN: token });

test("an agent runs tasks through a Manager, also after that was killed and another one goes on", async () => {
  const { folder, queue, token } = await setUp();
  const managers = [startManager(folder), startManager(folder)] as const;
  const urls = [await urlOf(managers[0]), await urlOf(managers[1])];
  const agent = startAgent(folder, urls.join(), token);
  await agent.out(isEvent("ready"));
  const opened = JSON.parse(await managers[0].out(isEvent("opened"))) as object;
  expect(opened).toMatchObject({ agent: "gpu-7", session: expect.any(String) });
  expect(await queue.awaitTaskResult(await queue.enqueueTask(add, 40, 2), long)).toBe(42);
  managers[0].child.kill("SIGKILL");
  expect(await queue.awaitTaskResult(await queue.enqueueTask(add, 1, 2), long)).toBe(3);
  for (const { child, ended } of [agent, managers[1]]) {
    child.kill("SIGTERM");
    expect(await ended).toMatchObject({ code: 0, err: "" });
  }
  expect((await queue.listTasks()).map(({ retryCount }) => retryCount)).toEqual([0, 0]);
});

test("a Manager whose database file is moved ends, and says why", async () => {
  const { folder } = await setUp();
  const manager = startManager(folder);
  await urlOf(manager);
  renameSync(join(folder, "dbq.db"), join(folder, "moved.db"));
  const { code, err } = await manager.ended;
  expect(code).toBe(1);
  expect(err).toContain("deleted, renamed or replaced");
});

test("the tasks of a killed agent are free within a second, and a retry is charged", async () => {
  const { folder, queue, token } = await setUp();
  const manager = startManager(folder);
  const agent = startAgent(folder, await urlOf(manager), token);
  const id = await queue.enqueueTask(untilAborted.with({ maxRetries: 1 }));
  await agent.out(isEvent("started"));
  const free = deferred<number>();
  const killed = performance.now();
  agent.child.kill("SIGKILL");
  const timer = setInterval(async () => {
    if ((await queue.getTask(id))?.status === "pending") free.resolve(performance.now());
  }, 20);
  expect((await free.promise) - killed).toBeLessThan(1_000);
  clearInterval(timer);
  expect(await queue.getTask(id)).toMatchObject({
    retryCount: 1,
    workerId: expect.stringContaining("/gpu-7/"),
  });
  expect(await queue.listAttempts(id)).toMatchObject([{ outcome: "crashed" }]);
});

test("dbq agent --max-tasks-per-child replaces a process after so many tasks", async () => {
  const { folder, queue } = await folderWithQueue();
  const whereAmI = childTasks.whereAmI.process;
  const funcs = registeredNames().join(",");
  const { token } = await dbqJson<{ token: string }>(folder, ["agent", "add", "gpu-7", "--funcs", funcs]);
  const manager = startManager(folder);
  const module = fileURLToPath(childTasks.moduleNamed("tasks"));
  const args = ["agent", await urlOf(manager), module, "--max-tasks-per-child", "2"];
  startDbq(folder, args, { DBQ_TOKEN: token });
  const calls: unknown[] = [];
  for (let n = 0; n < 3; n += 1) {
    const result = await queue.awaitTaskResult(await queue.enqueueTask(whereAmI), long);
    calls.push((result as { calls: number }).calls);
  }
  expect(calls).toEqual([1, 2, 1]);
  const refused = await dbq(folder, [...args.slice(0, -1), "0"], { DBQ_TOKEN: token });
  expect(refused).toMatchObject({ code: 2, err: expect.stringContaining("'0'") });
});

test("agents are listed and revoked, and a token is printed once", async () => {
  const { folder, token } = await setUp();
  expect(token).toMatch(/^dbq_[\w-]{43}$/);
  const again = await dbq(folder, ["agent", "add", "gpu-7", "--funcs", "add"]);
  expect(again).toMatchObject({ code: 2, err: expect.stringMatching(/^error: there is an agent "gpu-7"/) });
  const other = await dbq(folder, [
    "agent",
    "add",
    "eu.1",
    "--funcs",
    "add",
    "--queue",
    "a,b",
    "--expires",
    "90d",
  ]);
  expect(other.out).toMatch(/^dbq_[\w-]{43}\n$/);
  expect(other.err).toContain("shown once");
  expect(await dbq(folder, ["agent", "add", "", "--funcs", "add"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("argument 'name'. Expected a text of 1 to 255 characters"),
  });
  expect(await dbq(folder, ["agent", "add", "all", "--funcs", "*"])).toMatchObject({
    code: 2,
    err: expect.stringContaining('"*" is no wildcard'),
  });
  const listed = await dbqJson<{ name: string; valid: boolean }[]>(folder, ["agents"]);
  expect(listed).toMatchObject([
    { name: "eu.1", funcs: ["add"], queues: ["a", "b"], valid: true, revokedAt: null },
    { name: "gpu-7", queues: ["default"], valid: true, expiresAt: null, lastSeenAt: null },
  ]);
  expect(JSON.stringify(listed)).not.toContain(token);
  expect((await dbq(folder, ["agent", "revoke", "gpu-7"])).out).toBe("revoked gpu-7\n");
  expect((await dbq(folder, ["agents"])).out).toMatch(/gpu-7 +revoked/);
  expect(await dbq(folder, ["agent", "revoke", "gpu-8"])).toMatchObject({
    code: 1,
    err: expect.stringContaining('there is no agent "gpu-8"'),
  });
  // The name of a revoked agent may be used again.
  expect((await dbq(folder, ["agent", "add", "gpu-7", "--funcs", "add"])).code).toBe(0);
});

test("with TLS an agent checks the Manager's certificate, and without TLS nobody listens on the network", async () => {
  const { folder, queue, token } = await setUp();
  const made = [
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
    "-days",
    "1",
  ];
  const names = ["-subj", "/CN=manager", "-addext", "subjectAltName=IP:127.0.0.1"];
  execFileSync("openssl", [...made, ...names, "-keyout", "m.key", "-out", "m.crt"], {
    cwd: folder,
    stdio: "ignore",
  });
  const open = await dbq(folder, ["manager", "--listen", "0.0.0.0:0"]);
  expect(open).toMatchObject({ code: 2, err: expect.stringContaining("without tls") });
  const manager = startManager(folder, "--tls-cert", "m.crt", "--tls-key", join(folder, "m.key"));
  const url = await urlOf(manager);
  expect(url).toMatch(/^https:/);
  const distrusting = startAgent(folder, url, token);
  const trusting = startAgent(folder, url, token, "--ca", "m.crt");
  await trusting.out(isEvent("ready"));
  const id = await queue.enqueueTask(add, 1, 2);
  expect(await queue.awaitTaskResult(id, long)).toBe(3);
  await distrusting.err((line) => line.includes("self-signed certificate: name") && line.includes("--ca"));
  distrusting.child.kill("SIGTERM");
  expect((await distrusting.ended).out).not.toContain('"ready"');
});

test("an agent says what is wrong with its token and its functions", async () => {
  const { folder, queue } = await setUp();
  const manager = startManager(folder);
  const url = await urlOf(manager);
  expect(await dbqProcess(folder, ["agent", url, tasks])).toMatchObject({
    code: 2,
    err: expect.stringContaining("DBQ_TOKEN"),
  });
  const wrong = await dbqProcess(folder, ["agent", url, tasks], { DBQ_TOKEN: "dbq_wrong" });
  expect(wrong).toMatchObject({ code: 1, err: expect.stringMatching(/^error: .* refused the token.*\n$/) });
  const refused = JSON.parse(await manager.out(isEvent("refused"))) as object;
  expect(refused).toMatchObject({ token: "unknown", address: "127.0.0.1" });
  const { token } = await dbqJson<{ token: string }>(folder, ["agent", "add", "few", "--funcs", "nothing"]);
  const few = await dbqProcess(folder, ["agent", url, tasks], { DBQ_TOKEN: token });
  expect(few).toMatchObject({ code: 1, err: expect.stringMatching(/asked for .*add.*--funcs/) });
  expect(await dbq(folder, ["agent", "add"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("(see dbq agent add --help)"),
  });
  expect(await dbq(folder, ["agent", "revoke", "few", "more"])).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^error: dbq agent revoke takes .*see dbq agent revoke --help/),
  });
  expect(await dbq(folder, ["agent", "list"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("dbq agents lists the agents"),
  });
  const plain = await dbqProcess(folder, ["agent", "http://10.0.0.1:7420", tasks], { DBQ_TOKEN: token });
  expect(plain).toMatchObject({ code: 2, err: expect.stringContaining("use https:") });
  expect(await queue.listWorkers()).toEqual([]);
});

test("an agent whose token is revoked while it waits says so, goes on asking, and is stopped by a signal", async () => {
  const { folder, queue, token } = await setUp();
  const agent = startAgent(folder, await urlOf(startManager(folder)), token);
  await agent.out(isEvent("ready"));
  await dbq(folder, ["agent", "revoke", "gpu-7"]);
  // A task ends the claim that waits. The first one may come before the Manager knows of the revoked token.
  const timer = setInterval(() => void queue.enqueueTask(add, 1, 2), 200);
  const refusals = new Set<string>();
  await agent.err((line) => {
    if (line.includes("refused the token")) refusals.add(line);
    if (refusals.size > 0) clearInterval(timer);
    return refusals.size === 2;
  });
  agent.child.kill("SIGTERM");
  const { code, out } = await agent.ended;
  expect(code).toBe(0);
  expect(out).toContain('"stopped"');
});

test("a Manager and an agent name the address or the file that they cannot use", async () => {
  const { folder, token } = await setUp();
  const url = await urlOf(startManager(folder));
  const { host, port } = new URL(url);
  const taken = await dbq(folder, ["manager", "--listen", host]);
  expect(taken.err).toBe(`error: ${host}: another process listens there: stop it, or listen elsewhere\n`);
  expect(taken.code).toBe(1);
  const noFolder = await dbq(folder, ["manager", "--listen", `unix:${join(folder, "no-folder", "m.sock")}`]);
  expect(noFolder).toMatchObject({ code: 1, err: expect.stringMatching(/the folder is not there.*\n$/) });
  const json = await dbq(folder, ["manager", "--listen", host, "--json"]);
  expect(JSON.parse(json.err)).toEqual({
    error: { name: "ListenError", message: expect.stringContaining(host) },
  });
  writeFileSync(join(folder, "text.pem"), "no certificate");
  const noCertificate = await dbq(folder, ["manager", "--tls-cert", "text.pem", "--tls-key", "text.pem"]);
  expect(noCertificate).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^error: .*tls: the certificate \(PEM\) cannot be used: no start line\n$/),
  });
  const secure = `https://127.0.0.1:${port}`;
  const noCa = await dbqProcess(folder, ["agent", secure, tasks, "--ca", "text.pem"], { DBQ_TOKEN: token });
  expect(noCa).toMatchObject({
    code: 2,
    err: expect.stringMatching(/ca: expected certificates in PEM format/),
  });
  const plain = startAgent(folder, secure, token);
  await plain.err((line) => line.includes("does the Manager listen with TLS"));
});

test("a Manager prints once that an agent has lost a task, although a beat and a settle hear of it", async () => {
  const { folder, queue, token } = await setUp();
  const manager = startManager(folder);
  const hand = new ByHand(await urlOf(manager), token);
  const id = await queue.enqueueTask(add, 1, 2);
  const [claimed] = (await hand.claim(["add"])).body.tasks;
  const stale = { id, generation: claimed.generation - 1 };
  await hand.beat(stale);
  await hand.settle({ ...stale, status: "completed" });
  await hand.beat({ id, generation: claimed.generation + 1 });
  manager.child.kill("SIGTERM");
  const { out } = await manager.ended;
  expect(out.trim().split("\n").filter(isEvent("lost"))).toHaveLength(2);
});
