/** The operations of Managers and drains: agents, their sessions, and who drains a queue. */
import { thisProcess } from "../../../src/base/runtime/process-identity.ts";
import { sessionAsked } from "../../../src/features/manager/contract.ts";
import { storeOf } from "./manual-worker.ts";
import { type Operation, onQueue } from "./operation.ts";

/** With this host others see that the process is dead. A Manager writes another one. */
const { host } = thisProcess();

const agent = {
  name: "gpu-7",
  tokenHash: "ab".repeat(32),
  funcs: ["chore"],
  queues: ["default"],
  expiresIn: null,
};

export const managing: readonly Operation[] = [
  onQueue("add an agent", 1, async (queue, actor) => {
    actor.arm();
    await storeOf(queue).agents.add(agent);
  }),

  onQueue("add an agent in place of a revoked one", 1, async (queue, actor) => {
    const { agents } = storeOf(queue);
    await agents.add(agent);
    await agents.revoke(agent.name);
    actor.arm();
    await agents.add({ ...agent, tokenHash: "cd".repeat(32) });
  }),

  onQueue("revoke an agent", 1, async (queue, actor) => {
    const { agents } = storeOf(queue);
    await agents.add(agent);
    actor.arm();
    await agents.revoke(agent.name);
  }),

  onQueue("heartbeats of agents", 1, async (queue, actor) => {
    const [one, two] = [await actor.worker(queue, "one"), await actor.worker(queue, "two")];
    actor.arm();
    await storeOf(queue).agents.beat([one, two].map(({ id }) => ({ workerId: id, host })));
  }),

  onQueue("a claim of an agent's session", 1, async (queue, actor) => {
    const { id: workerId, store } = await actor.worker(queue);
    const session = sessionAsked.with({ id: "request", host, anew: false });
    actor.arm();
    const { claimed } = await store.settleAndClaim({
      outcomes: [],
      claim: { workerId, queueNames: ["default"], funcs: ["chore"], limit: 2, ...session },
    });
    for (const { id, generationId } of claimed) actor.log("start", { task: id, generation: generationId });
  }),

  onQueue("begin to drain a queue", 1, async (queue, actor) => {
    const { id, store } = await actor.worker(queue);
    actor.arm();
    await store.drains.take("mail", id, "bullmq");
  }),

  onQueue("take over a drain", 1, async (queue, actor) => {
    const [former, next] = [await actor.worker(queue, "former"), await actor.worker(queue, "next")];
    await former.store.drains.take("mail", former.id, "bullmq");
    await former.store.unregister(former.id);
    actor.arm();
    await next.store.drains.take("mail", next.id, "bullmq");
  }),

  onQueue("adopt an origin", 1, async (queue, actor) => {
    const { drains } = storeOf(queue);
    await drains.adoptOrigin("own");
    actor.arm();
    await drains.adoptOrigin("moved");
  }),
];
