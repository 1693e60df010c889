/** Tasks with very many children, on SQLite. */
import { join } from "node:path";
import { temporaryFolder } from "../../support/queue.ts";
import { manyChildrenCases } from "./many-children-cases.ts";

manyChildrenCases("SQLite", async () => join(temporaryFolder(), "dbq.db"));
