/** An app's module that is edited and loaded again, as tests and development servers do it. */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { expect, onTestFinished, test, vi } from "vitest";
import { createViteServer } from "vitest/node";
import { definitionNamed } from "../../../src/base/tasks/registry.ts";
import { type AnyFunction, task } from "../../../src/index.ts";
import { startedWorker, temporaryFolder, temporaryQueue } from "../../support/queue.ts";

interface Tasks {
  greet: AnyFunction & { taskName: string };
}

test("vi.resetModules and an import replace the function, and a worker runs the new one", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue);
  const load = async (): Promise<Tasks> => await import("../../fixtures/reloaded-tasks.ts");
  const first = await load();
  expect(await queue.awaitTaskResult(await queue.enqueueTask(first.greet))).toBe("hello 1");
  vi.resetModules();
  const warning = once(process, "warning");
  const second = await load();
  expect(second.greet).not.toBe(first.greet);
  expect(await queue.awaitTaskResult(await queue.enqueueTask(first.greet))).toBe("hello 2");
  expect(await warning).toMatchObject([
    { name: "DbqWarning", message: expect.stringContaining('task "reloaded" was defined again') },
  ]);
});

test("the error of a second definition names the lines of the source, not of the compiled file", () => {
  const file = join(temporaryFolder(), "twice.mts");
  const library = new URL("../../../src/index.ts", import.meta.url).href;
  const lines = [
    `import { task } from ${JSON.stringify(library)};`,
    "export interface Order { id: number }",
    'task("twice", (order: Order) => order.id);',
    "",
    'task("twice", () => 2);',
  ];
  writeFileSync(file, lines.join("\n"));
  const { stderr } = spawnSync(process.execPath, ["--import", import.meta.resolve("tsx"), file], {
    encoding: "utf8",
  });
  expect(stderr).toContain("twice.mts:3:1, now at ");
  expect(stderr).toContain("twice.mts:5:1): ");
});

test("an edited file under Vite's server-side rendering replaces the function without restarting the server", async () => {
  const root = temporaryFolder();
  const library = fileURLToPath(new URL("../../../src/index.ts", import.meta.url));
  const write = (text: string) =>
    writeFileSync(
      join(root, "tasks.ts"),
      `import { task } from ${JSON.stringify(library)};\nexport const greet = task("edited", () => ${JSON.stringify(text)});\n`,
    );
  write("before");
  const server = await createViteServer({
    root,
    configFile: false,
    logLevel: "silent",
    server: { middlewareMode: true, hmr: false, watch: null },
    appType: "custom",
  });
  onTestFinished(() => server.close());
  await server.ssrLoadModule("/tasks.ts");
  expect(definitionNamed("edited")?.fn?.()).toBe("before");
  write("after the edit");
  server.moduleGraph.invalidateAll();
  const { greet } = (await server.ssrLoadModule("/tasks.ts")) as Tasks;
  expect(greet()).toBe("after the edit");
  expect(definitionNamed("edited")?.fn?.()).toBe("after the edit");
  expect(() => task("edited", () => "a third, of this file")).toThrow(
    /already registered.*tasks\.ts:\d+:\d+, now at/,
  );
});
