/** docs/cli.md names every command and option, and no others. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { buildProgram } from "../../../src/entries/cli/program.ts";
import { codeIn, readPages } from "../../docs/pages.ts";

const page = readFileSync(fileURLToPath(new URL("../../../docs/cli.md", import.meta.url)), "utf8");
const program = buildProgram(false);

function optionsOf(command: Command): string[] {
  const own = [command, ...command.commands].flatMap(({ options }) => options);
  return [...own, ...program.options].flatMap(({ long }) => (long ? [long] : []));
}

/** The calls of `dbq` in a text, with their options. */
function callsIn(text: string): { call: string; name: string; options: string[] }[] {
  return Array.from(text.matchAll(/^.*?\bdbq ([a-z]+)(.*)$/gm), ([call, name = "", rest = ""]) => ({
    call,
    name,
    options: rest.split(" # ")[0]?.match(/(?<=\s)--[a-z-]+/g) ?? [],
  }));
}

function wrongCalls(text: string): string[] {
  return callsIn(text)
    .filter(({ name, options }) => {
      const command = program.commands.find((each) => each.name() === name);
      return command === undefined || options.some((option) => !optionsOf(command).includes(option));
    })
    .map(({ call }) => call);
}

/** The commands of a block, as docs/cli.md would write them. */
function written(text: string): string {
  const lines = text.split("\n").filter((line) => !/^\s*(npm|docker) /.test(line));
  return lines.join("\n").replaceAll(/(?:npx )?\b(?:node_modules\/\S+\/(?:bin\.js|dbq)|dbq-ts)(?= )/g, "dbq");
}

test("every page's commands exist, with these options", () => {
  const texts = codeIn(readPages(), "sh").map(({ text }) => written(text));
  const calls = callsIn(texts.join("\n")).map(({ call }) => call);
  expect(calls.length).toBeGreaterThan(40);
  expect(calls).toContainEqual(expect.stringMatching(/dbq worker \.\/tasks\.ts --db app\.db$/));
  expect(wrongCalls(texts.join("\n"))).toEqual([]);
  expect(wrongCalls(written("node node_modules/dbq-ts/bin.js wrk\nnpx dbq-ts list --nope"))).toHaveLength(2);
});

const blocks = Array.from(page.matchAll(/^```sh\n(.*?)^```/gms), ([, text]) => text as string);

test("the examples of docs/cli.md use existing commands and options", () => {
  expect(callsIn(blocks.join("\n")).length).toBeGreaterThan(15);
  expect(wrongCalls(blocks.join("\n"))).toEqual([]);
  expect(wrongCalls("dbq lst\ndbq list --nope")).toHaveLength(2);
});

test("docs/cli.md has an example of each command, and names each option", () => {
  const called = new Set(callsIn(blocks.join("\n")).map(({ name }) => name));
  const missing = program.commands.flatMap((command) => [
    ...(called.has(command.name()) ? [] : [command.name()]),
    ...optionsOf(command).filter((option) => option !== "--version" && !page.includes(option)),
  ]);
  expect(missing).toEqual([]);
});
