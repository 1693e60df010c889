/** The test kit on SQLite. */
import { kitTests } from "./kit.ts";

kitTests(async () => ":memory:");
