#!/usr/bin/env node
/** The `dbq` command. */
import { outputFlushed, tolerateClosedOutput } from "./output.ts";
import { run } from "./run.ts";

tolerateClosedOutput();
const code = await run(process.argv.slice(2));
// An output that cannot be written fails here at the latest.
await outputFlushed();
// A pool or a server that a module has opened would keep the process alive.
process.exit(code || Number(process.exitCode ?? 0));
