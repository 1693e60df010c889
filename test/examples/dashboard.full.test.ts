import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/queue.ts";
import { program } from "./program.ts";

const file = (name: string) => fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));

test.each(["hono", "express", "fastify"])(
  "the dashboard in %s opens for its admin alone, and acts",
  async (name) => {
    const app = program(file(`dashboard/${name}.ts`), {
      cwd: temporaryFolder(),
      tsconfig: file("tsconfig.json"),
      env: { PORT: "0" },
    });
    const [, url] = await app.printed(/listening on (\S+)/);
    const tasks = `${url}/ops/dbq/tasks`;
    const stranger = await fetch(tasks);
    expect([stranger.status, stranger.headers.get("www-authenticate")]).toEqual([401, 'Basic realm="dbq"']);
    const wrong = { authorization: `Basic ${btoa("admin:guess")}` };
    expect((await fetch(tasks, { headers: wrong })).status).toBe(401);
    const authorization = `Basic ${btoa("admin:secret")}`;
    const page = await fetch(tasks, { headers: { authorization, accept: "text/html" } });
    expect(await page.text()).toContain("greet");
    const body = new URLSearchParams({ reason: "not needed" });
    const cancelled = await fetch(`${url}/ops/dbq/api/tasks/1/cancel`, {
      method: "POST",
      body,
      headers: { authorization },
    });
    expect(await cancelled.json()).toEqual({ ok: true, message: "Task 1 is cancelled." });
    const again = await fetch(`${url}/ops/dbq/api/tasks/1/enqueue`, {
      method: "POST",
      headers: { authorization },
    });
    expect(await again.json()).toMatchObject({ ok: true });
    const selected = [
      ["action", "delete"],
      ["scope", "ids"],
      ["confirmed", "yes"],
      ["id", "1"],
      ["id", "2"],
    ];
    const deleted = await fetch(`${url}/ops/dbq/tasks/bulk`, {
      method: "POST",
      body: new URLSearchParams(selected),
      headers: { authorization },
    });
    expect(await deleted.json()).toMatchObject({ ok: true, changed: 2, message: "2 tasks are deleted." });
  },
);

test("the dashboard as a route of Next answers requests", async () => {
  const script = `${temporaryFolder()}/route.mts`;
  const { writeFileSync } = await import("node:fs");
  writeFileSync(
    script,
    `import { GET } from ${JSON.stringify(file("dashboard/next-route.ts"))};
    const answer = await GET(new Request("http://app.example/ops/dbq/"));
    console.log("answered " + answer.status);
    process.exit();`,
  );
  const app = program(script, { cwd: temporaryFolder(), tsconfig: file("tsconfig.json") });
  expect((await app.printed(/answered (\d+)/))[1]).toBe("401");
});
