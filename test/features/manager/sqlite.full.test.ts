import { managerCases } from "./cases.ts";
import { limitCases } from "./limit-cases.ts";
import { onFile } from "./setup.ts";

managerCases("on SQLite", onFile);
limitCases("on SQLite", onFile);
