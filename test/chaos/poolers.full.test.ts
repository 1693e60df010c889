/** Invariant: that of `scenarios/poolers.ts`, behind each pooler. */
import { proves } from "./scenario-test.ts";
import { behindPooler } from "./scenarios/poolers.ts";
import { type PoolerName, poolerKinds } from "./servers/own-pooler.ts";

for (const name of Object.keys(poolerKinds)) proves(behindPooler(name as PoolerName));
