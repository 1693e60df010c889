import { runSuite } from "./run.ts";
import { sqliteStores } from "./sqlite-stores.ts";

runSuite(sqliteStores);
