/** Every command with --grace reads it in the same way: a number alone would be milliseconds, and is meant as seconds. */
import { type Command, InvalidArgumentError, type Option } from "commander";
import { expect, it } from "vitest";
import { buildProgram } from "../../../src/entries/cli/program.ts";

const all = (command: Command): Command[] => [command, ...command.commands.flatMap(all)];
const withGrace = all(buildProgram(true)).flatMap((command) => {
  const option = command.options.find(({ long }) => long === "--grace");
  return option ? [[command.name(), option] as [string, Option]] : [];
});

it("three commands have --grace", () => {
  expect(withGrace.map(([name]) => name).sort()).toEqual(["agent", "drain", "worker"]);
});

it.each(withGrace)("dbq %s refuses a --grace without a unit, other than 0", (_, { parseArg }) => {
  const parse = (text: string) => parseArg?.(text, undefined);
  for (const text of ["30", "1.5", " 30 ", "1e3", "0x1f"])
    expect(() => parse(text)).toThrow(InvalidArgumentError);
  expect(() => parse("30")).toThrow("30s or 30ms");
  expect([parse("0"), parse("30s"), parse("1m"), parse("250ms")]).toEqual([0, 30_000, 60_000, 250]);
});
