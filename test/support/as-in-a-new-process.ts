/** Setup of test files that share a process: each file begins without what the files before it have left in vitest and in dbq. */
import { vi } from "vitest";
import { processGlobal } from "../../src/base/runtime/process-globals.ts";
import { setDefaultQueue } from "../../src/index.ts";

vi.restoreAllMocks();
vi.unstubAllEnvs();
// The modules of `test/` define task functions and count names: each file loads them anew.
vi.resetModules();

setDefaultQueue(undefined);
processGlobal("definitions", () => new Map()).clear();
processGlobal("sharing", () => new Set()).clear();
processGlobal("checking", () => ({ any: false })).any = false;
processGlobal("redefined", () => new Set()).clear();
processGlobal("warnedOfOutside", () => ({ once: false })).once = false;
