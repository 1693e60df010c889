/** Compensation on SQLite. */
import { join } from "node:path";
import { temporaryFolder } from "../../support/queue.ts";
import { undoCases } from "./undo-cases.ts";

undoCases("SQLite", async () => join(temporaryFolder(), "dbq.db"));
