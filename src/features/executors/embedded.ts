/** The source texts of the programs that threads and processes run. The build replaces this module by those texts. */
import { bundleProgram } from "./embed.ts";

export const processProgram = bundleProgram("process-program", import.meta.url);
export const threadProgram = bundleProgram("thread-program", import.meta.url);
