/** A Manager in a separate process. */
import { openQueue } from "dbq-ts";
import { addAgent, Manager } from "dbq-ts/manager";
import { configOf, serve } from "../processes/served.ts";
import { usage } from "./usage.ts";

export interface ManagerConfig {
  url: string;
}

const { url } = configOf<ManagerConfig>();
const queue = await openQueue(url);
const manager = new Manager(queue, { listen: "127.0.0.1:0" });
manager.on("error", (error) => {
  throw error;
});
await manager.start();

let agents = 0;

const commands = {
  /** Where it is, and the token of a new agent. */
  place: async (): Promise<{ url: string; token: string }> => {
    agents += 1;
    const name = `${process.pid}-${agents}`;
    return { url: manager.url ?? "", token: (await addAgent(queue, name, { funcs: "work" })).token };
  },
  usage,
};

export type ManagerCommands = typeof commands;

serve(commands);
