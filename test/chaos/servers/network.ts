/** Where a server of the chaos tests can be reached. */
export interface Network {
  /** The address on which it listens. */
  address: string;
  /** The net of the clients that it lets in without a password. */
  clients: string;
}

/** This host alone. */
export const loopback: Network = { address: "127.0.0.1", clients: "127.0.0.1/32" };
