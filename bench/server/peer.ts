/** What the peers on Postgres need: the server, and a recent node. */
import type { Contender } from "../benchmark.ts";
import { noServer } from "./databases.ts";
import { noNodeForPeers } from "./node.ts";

export const peerOn: Pick<Contender, "missing"> = {
  missing: async () => (await noNodeForPeers()) ?? (await noServer("postgres")()),
};
