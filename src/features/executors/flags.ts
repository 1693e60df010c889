/** Chooses the flags of Node for a process that runs tasks: the worker's, except those for its own program or debugger. */

/** Flags for the worker's own program or debugger; `takesNext` has those whose value may be the next argument. */
const own =
  /^(?:-[ipce]+|--(?:eval|print|check|interactive|input-type|watch.*|test.*|inspect.*|debug-port|title|experimental-default-type))(?:=|$)/;
const takesNext = /^(?:-[pe]+|--(?:eval|print|watch-path|inspect-port|debug-port|input-type|title))$/;

/** @param memory bytes of the heap */
export function childFlags(flags: readonly string[], memory: number | undefined): string[] {
  const kept: string[] = [];
  for (let i = 0; i < flags.length; i += 1) {
    const flag = flags[i] as string;
    if (!own.test(flag)) kept.push(flag);
    else if (takesNext.test(flag)) i += 1;
  }
  // Node takes the last one.
  return memory === undefined ? kept : [...kept, `--max-old-space-size=${Math.floor(memory / 1_048_576)}`];
}
