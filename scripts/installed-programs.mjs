/** The files of the projects that `check-install.mjs` makes: apps as users write them. */
import { readFileSync } from "node:fs";
import { transformSync } from "esbuild";

/** `block` is for a worker inside of the app: it blocks the event loop, and heartbeats go on. */
export const tasks = `
import { task } from "dbq-ts";

export const double = task("double", async (n) => n * 2);
export const block = task("block", async (ms) => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}, { queueName: "own" });
`;

/** Awaits a task of a worker elsewhere. Then counts its own worker's heartbeats while the event loop is blocked. */
const check = `
async function check(url) {
  const queue = await openQueue(url);
  const result = await queue.awaitTaskResult(await queue.enqueueTask(double, 21), { timeout: "30s" });
  const worker = new Worker(queue, { queueName: "own", lease: "1s", tasks: [block] });
  await worker.start();
  const beats = async () => (await queue.listWorkers()).find(({ id }) => id === worker.id)?.beat ?? 0;
  // The event loop sends at most two beside a task. The thread may start late.
  let beatsMeanwhile = 0;
  for (let tries = 0; tries < 20 && beatsMeanwhile < 3; tries += 1) {
    const before = await beats();
    await queue.awaitTaskResult(await queue.enqueueTask(block, 1_300), { timeout: "30s" });
    beatsMeanwhile = (await beats()) - before;
  }
  await worker.stop();
  await queue.close();
  return { result, hasHeartbeatThread: beatsMeanwhile >= 3 };
}
`;

export const app = `
import { openQueue, Worker } from "dbq-ts";
import { block, double } from "./tasks.js";
${check}
console.log(JSON.stringify(await check(process.env.DBQ_URL)));
`;

/** What \`app\` prints, and what the route of \`nextFiles\` answers. */
export const expected = { result: 42, hasHeartbeatThread: true };

/** In CommonJS, since that is what Jest runs without further options. */
export const jestTest = `
const { openQueue, task, Worker } = require("dbq-ts");

test("a task runs", async () => {
  const queue = await openQueue(process.env.DBQ_URL);
  const worker = new Worker(queue);
  const double = task("double", async (n) => n * 2);
  await worker.start();
  expect(await queue.awaitTaskResult(await queue.enqueueTask(double, 21), { timeout: "30s" })).toBe(42);
  await worker.stop();
  await queue.close();
}, 60_000);
`;

/** An example as JavaScript, so that Next needs no TypeScript. @param {string} name */
function example(name) {
  const text = readFileSync(new URL(`../examples/dashboard/${name}.ts`, import.meta.url), "utf8");
  return transformSync(text, { loader: "ts" }).code.replace("./queue.ts", "./queue.js");
}

/** @returns {Record<string, string>} an app with a route handler and the dashboard, and no configuration */
export const nextFiles = () => ({
  "app/ops/dbq/[[...path]]/queue.js": example("queue"),
  "app/ops/dbq/[[...path]]/route.js": example("next-route"),
  "app/layout.js": "export default ({ children }) => <html><body>{children}</body></html>;\n",
  "app/tasks.js": tasks,
  "app/check/route.js": `
import { openQueue, Worker } from "dbq-ts";
import { block, double } from "../tasks.js";
${check}
export const dynamic = "force-dynamic";
export const GET = async () => Response.json(await check(process.env.DBQ_URL));
`,
});

/** Drains one task into BullMQ, and prints what became of it there and here. `REDIS_URL` is the server's. */
export const drainIntoBullmq = `
import { Queue } from "bullmq";
import { openQueue, remoteTask } from "dbq-ts";
import { drain } from "dbq-ts/drain";
import { bullmq } from "dbq-ts/drain/bullmq";

const { hostname: host, port, username, password } = new URL(process.env.REDIS_URL ?? "");
const login = { ...(username ? { username } : {}), ...(password ? { password } : {}) };
const mail = new Queue("dbq-install-" + process.pid, { connection: { host, port: Number(port || 6379), ...login } });
const queue = await openQueue("app.db");
const id = await queue.enqueueTask(remoteTask("send", { queueName: "mail" }), "ada@example.org");
const carrier = drain(queue, { queueName: "mail", to: bullmq(mail) });
const sent = new Promise<string[]>((resolve, reject) => {
  carrier.once("sent", resolve);
  carrier.once("error", reject);
});
await carrier.start();
const [messageId = ""] = await sent;
const job = await mail.getJob(messageId);
await carrier.stop();
console.log(JSON.stringify({ status: (await queue.getTask(id))?.status, name: job?.name, args: job?.data.args }));
await mail.obliterate({ force: true });
await mail.close();
await queue.close();
`;

/** What `drainIntoBullmq` prints. */
export const drained = { status: "completed", name: "send", args: ["ada@example.org"] };
