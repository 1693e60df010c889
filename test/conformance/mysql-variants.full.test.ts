import { mysqlServer } from "../support/mysql.ts";
import { mysqlVariants } from "./mysql-stores.ts";
import { runSuiteOn } from "./run.ts";

runSuiteOn(await mysqlServer(), mysqlVariants);
