/**
 * Global setup: a Postgres for tests that find none. It starts when the first of them asks, so that no other run waits
 * for it, and ends with the run.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { fileURLToPath } from "node:url";
import type { Server } from "./server.ts";

const program = fileURLToPath(new URL("./embedded-postgres.mjs", import.meta.url));

/** Answers each connection to the port in DBQ_TEST_POSTGRES_PORT with the server's address. */
export async function setup(): Promise<() => Promise<void>> {
  let child: ChildProcess | undefined;
  let server: Promise<Server> | undefined;
  const start = (): Promise<Server> => {
    // Its output does not help a reader of the tests' output; its errors come as messages.
    child = fork(program, { stdio: "ignore" });
    return answerOf(child);
  };
  const asked = createServer(async (socket) => {
    server ??= start();
    socket.end(JSON.stringify(await server));
  });
  asked.listen(0, "127.0.0.1");
  await once(asked, "listening");
  process.env.DBQ_TEST_POSTGRES_PORT = String((asked.address() as AddressInfo).port);
  return async () => {
    asked.close();
    if (child === undefined || child.exitCode !== null) return;
    const ended = once(child, "exit");
    child.disconnect();
    await ended;
  };
}

function answerOf(child: ChildProcess): Promise<Server> {
  return new Promise((resolve) => {
    child.once("message", (answer) => resolve(answer as Server));
    child.once("error", ({ message }) => resolve({ reason: message }));
    child.once("exit", (code) => resolve({ reason: `the process that starts it ended with ${code}` }));
  });
}
