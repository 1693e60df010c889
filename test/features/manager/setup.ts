/** Managers, agents, and a client that speaks the wire by hand. */
import { randomUUID } from "node:crypto";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { Agent, type AgentOptions } from "../../../src/features/agent.ts";
import { addAgent, Manager, type ManagerOptions } from "../../../src/features/manager/index.ts";
import { openQueue, type Queue } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";

/** Opens another queue on the same database at each call. */
export type Open = () => Promise<Queue>;

export function onFile(): Open {
  const path = join(temporaryFolder(), "dbq.db");
  return async () => {
    const queue = await openQueue(path);
    onTestFinished(() => queue.close());
    return queue;
  };
}

export async function startedManager(queue: Queue, options: ManagerOptions = {}): Promise<Manager> {
  const manager = new Manager(queue, { listen: "127.0.0.1:0", ...options });
  await manager.start();
  onTestFinished(() => manager.stop());
  return manager;
}

export const urlOf = (manager: Manager): string => manager.url as string;

export async function startedAgent(
  managers: readonly Manager[],
  options: Omit<AgentOptions, "managers">,
): Promise<Agent> {
  const agent = new Agent({ managers: managers.map(urlOf), ...options });
  await agent.start();
  onTestFinished(() => agent.stop({ grace: 0 }));
  return agent;
}

export interface Answer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: JSON, which each test looks into.
  body: any;
}

/** A client of any language: each request is a connection of its own. */
export class ByHand {
  readonly url: string;
  readonly token: string;
  readonly session: string;

  constructor(url: string, token: string, session: string = randomUUID()) {
    this.url = url;
    this.token = token;
    this.session = session;
  }

  /** The same session at another Manager. */
  at(url: string): ByHand {
    return new ByHand(url, this.token, this.session);
  }

  async claim(funcs: readonly string[], more: object = {}): Promise<Answer> {
    const asked = { session: this.session, requestId: randomUUID(), slots: 10, funcs, wait: 0, ...more };
    return await this.post("/v1/claim", asked);
  }

  async settle(...tasks: object[]): Promise<Answer> {
    return await this.post("/v1/settle", { session: this.session, tasks });
  }

  async beat(...running: object[]): Promise<Answer> {
    return await this.post("/v1/beat", { session: this.session, running });
  }

  async progress(...tasks: object[]): Promise<Answer> {
    return await this.post("/v1/progress", { session: this.session, tasks });
  }

  async post(path: string, body: object | string | Buffer): Promise<Answer> {
    return await send(this.url, path, {
      headers: { authorization: `Bearer ${this.token}` },
      body: typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body),
    });
  }
}

export async function send(
  url: string,
  path: string,
  {
    method = "POST",
    headers = {},
    body = "",
  }: { method?: string; headers?: object; body?: string | Buffer } = {},
): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const asked = { method, headers: { connection: "close", ...headers }, agent: false as const };
    const request = httpRequest(new URL(path, url), asked, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, body: text === "" ? "" : JSON.parse(text) }),
      );
    });
    request.on("error", reject);
    request.end(body);
  });
}

let agents = 0;

/** An agent's token for these functions. */
export async function tokenFor(queue: Queue, funcs: readonly string[], more: object = {}): Promise<string> {
  agents += 1;
  return (await addAgent(queue, `agent-${agents}`, { funcs, ...more })).token;
}

export const version = ({ id, generation }: { id: number; generation: number }) => ({ id, generation });
