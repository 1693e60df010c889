/** The pools of dbq's own statements, which all queues of a thread on one target share. */
import type { ServerPool } from "./pool.ts";

interface Shared {
  pool: ServerPool;
  users: number;
}

const pools = new Map<string, Shared>();

export interface PoolUse {
  pool: ServerPool;
  /** The pool is closed when its last user releases it. */
  release(): Promise<void>;
}

/** @param target names what the pool connects to; undefined: the pool has one user */
export function usePool(target: string | undefined, make: () => ServerPool): PoolUse {
  if (target === undefined) {
    const pool = make();
    return { pool, release: () => pool.close() };
  }
  const shared = pools.get(target) ?? { pool: make(), users: 0 };
  pools.set(target, shared);
  shared.users += 1;
  let released = false;
  const release = async () => {
    if (released) return;
    released = true;
    shared.users -= 1;
    if (shared.users > 0) return;
    pools.delete(target);
    await shared.pool.close();
  };
  return { pool: shared.pool, release };
}
