/** `dbq dashboard`: a real process, asked as a browser asks. */
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { dbq, folderWithQueue, isEvent, startDbq } from "./dbq.ts";

const send = remoteTask("send");

test("it prints an address that shows the tasks once, and by its cookie from then on; a signal stops it", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.enqueueTask(send, "for Eva");
  const { child, ended, out } = startDbq(folder, ["dashboard", "--json"]);
  const { url } = JSON.parse(await out(isEvent("ready"))) as { url: string };
  const { origin } = new URL(url);
  expect((await fetch(`${origin}/tasks`)).status).toBe(403);
  const exchanged = await fetch(url, { redirect: "manual" });
  expect([exchanged.status, exchanged.headers.get("location")]).toEqual([303, "/"]);
  const cookie = exchanged.headers.get("set-cookie")?.split(";")[0] ?? "";
  const shown = await fetch(`${origin}/tasks`, { headers: { cookie, accept: "text/html" } });
  expect(await shown.text()).toContain("for Eva");
  child.kill("SIGTERM");
  expect(await ended).toMatchObject({ code: 0, err: "" });
});

test("with --read-only it changes nothing", async () => {
  const { folder, queue } = await folderWithQueue();
  const id = await queue.enqueueTask(send, 1);
  const { child, ended, out } = startDbq(folder, ["dashboard", "--json", "--read-only"]);
  const { url } = JSON.parse(await out(isEvent("ready"))) as { url: string };
  const cookie = (await fetch(url, { redirect: "manual" })).headers.get("set-cookie")?.split(";")[0] ?? "";
  const headers = { cookie, "sec-fetch-site": "same-origin", accept: "application/json" };
  const refused = await fetch(`${new URL(url).origin}/api/tasks/${id}/cancel`, { method: "POST", headers });
  expect([refused.status, await refused.json()]).toEqual([
    403,
    { ok: false, message: "you may not cancel here" },
  ]);
  expect((await queue.getTask(id))?.status).toBe("pending");
  child.kill("SIGTERM");
  expect((await ended).code).toBe(0);
});

test("a port that is taken, and a database that is not there, are errors that say so", async () => {
  const { folder } = await folderWithQueue();
  const first = startDbq(folder, ["dashboard", "--json"]);
  const { url } = JSON.parse(await first.out(isEvent("ready"))) as { url: string };
  const { port } = new URL(url);
  const second = await dbq(folder, ["dashboard", "--port", port]);
  expect(second).toMatchObject({ code: 1, err: expect.stringContaining(`--port ${port}: `) });
  expect((await dbq(folder, ["dashboard", "--db", "none.db"])).code).toBe(1);
  first.child.kill("SIGTERM");
  await first.ended;
});
