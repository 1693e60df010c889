import { runSuite } from "./run.ts";
import { sqliteVariants } from "./sqlite-stores.ts";

runSuite(sqliteVariants);
