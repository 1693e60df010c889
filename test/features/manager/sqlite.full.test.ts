import { managerCases } from "./cases.ts";
import { onFile } from "./setup.ts";

managerCases("on SQLite", onFile);
