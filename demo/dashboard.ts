/** The dashboard of the demo: on this machine alone, behind the token in the printed address. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { localDashboard, toNodeHandler } from "../src/features/dashboard/local.ts";
import type { Queue } from "../src/index.ts";

export interface OpenDashboard {
  url: string;
  close(): Promise<void>;
}

export async function openDashboard(queue: Queue): Promise<OpenDashboard> {
  const { handle, token } = localDashboard(queue);
  const server = createServer(toNodeHandler(handle));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    await handle.close();
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}/?token=${token}`, close };
}
