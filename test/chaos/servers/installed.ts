/** Which packages of the operating system a scenario lacks on this machine. */
import { existsSync } from "node:fs";
import { join } from "node:path";

const isInstalled = (program: string): boolean =>
  ["/usr/bin", "/usr/sbin", "/usr/local/bin"].some((folder) => existsSync(join(folder, program)));

/** @param needed programs, each with the package that has it. @returns the packages that are not installed */
export function missingPackages(needed: Readonly<Record<string, string>>): string[] {
  const programs = Object.keys(needed).filter((program) => !isInstalled(program));
  return [...new Set(programs.map((program) => needed[program] as string))];
}

/** Why a scenario cannot start what it needs; undefined when nothing is missing. @param starts such as `a cluster` */
export const notInstalled = (starts: string, missing: readonly string[]): string | undefined =>
  missing.length === 0
    ? undefined
    : `it starts ${starts}; these packages are not installed: ${missing.join(", ")}`;
