import { join } from "node:path";
import { temporaryFolder } from "../../support/queue.ts";
import { scheduleCases } from "./cases.ts";

scheduleCases("SQLite", async () => join(temporaryFolder(), "dbq.db"));
