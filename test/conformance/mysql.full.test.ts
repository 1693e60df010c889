import { mysqlServer } from "../support/mysql.ts";
import { mysqlMain } from "./mysql-stores.ts";
import { runSuiteOn } from "./run.ts";

runSuiteOn(await mysqlServer(), mysqlMain);
