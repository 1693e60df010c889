#!/usr/bin/env node
// The `dbq` command as a file with a short path, for `node node_modules/dbq-ts/bin.js worker …`.
import "./dist/src/entries/cli/main.js";
