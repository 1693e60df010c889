/** Prints the README's commands for a clone of the project, one per line: CI runs them. */
import { readFileSync } from "node:fs";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const shell = [...readme.matchAll(/^```(?:sh|bash)\n([\s\S]*?)^```$/gm)].map(([, block = ""]) => block);
const commands = shell
  .flatMap((block) => block.split("\n"))
  .map((line) => line.replace(/\s+#.*$/, "").trim())
  .filter((line) => /^npm (ci|run|test)\b/.test(line));

for (const needed of ["npm ci", "npm run demo", "npm test"]) {
  if (commands.some((command) => command.split(" && ").includes(needed))) continue;
  console.error(`README.md: no sh block has the command "${needed}"`);
  process.exitCode = 1;
}
if (process.exitCode === undefined) console.log(commands.join("\n"));
