import { attackCases } from "./attacks.ts";
import { onFile } from "./setup.ts";

attackCases("on SQLite", onFile);
