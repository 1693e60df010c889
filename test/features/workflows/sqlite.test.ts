/** Workflows on SQLite. */
import { join } from "node:path";
import { temporaryFolder } from "../../support/queue.ts";
import { workflowCases } from "./cases.ts";
import { waitsCases } from "./waits-cases.ts";

workflowCases("SQLite", async () => join(temporaryFolder(), "dbq.db"));
waitsCases("SQLite", async () => join(temporaryFolder(), "dbq.db"));
